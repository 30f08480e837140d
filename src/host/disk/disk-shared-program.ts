/**
 * The part of the child's program (disk-walk-program.ts) that finds files of several pods: files with names in the directories
 * of more than one, and deleted files that more than one holds open. Walks and checks of open files that name a `round` and a
 * `pod` are remembered until the next round. `{"id":…,"round":…,"pod":…,"walks":…,"isWhole":…}` is answered with
 * `[id,"done",[[device,inode,…],…],true]`: for each of the pod's directories, and for the open files on each device (inode 0),
 * bytes, inodes, fresh bytes and fresh inodes of the files that cannot be attributed to one pod, then of those attributed to
 * another pod. It fails if not all `walks` of the round were made by this child. `isWhole` false: not every pod was walked
 * completely.
 */
export const SHARED_PROGRAM = String.raw`
const ROOT = 0;
// The kernel's times of files may lag behind by a tick.
const COARSE_MS = 20;

let latest = { round: null };

// Half as many files are remembered as in a walk; one beyond them is not attributed to any pod.
function roundOf(round, most) {
  if (latest.round === round) return latest;
  latest = { round, beganMs: Date.now() - COARSE_MS, walks: 0, most: most / 2, files: new Map(), sums: new Map(), isSettled: false };
  return latest;
}

function noteWalk(round, pod, totals, linked) {
  const all = roundOf(round, linked.most);
  all.walks += 1;
  for (const total of totals) addSum(all, pod, total, [total.device, total.inode]);
  eachElsewhere(linked, (id, file, total) => addPart(all, id, file, { pod, sum: totals[total] }));
}

function noteHeld({ round, pod }, of, stats) {
  if (round === undefined) return;
  const all = roundOf(round);
  if (of.unattributed === undefined) addSum(all, pod, of, [of.device, 0]);
  const file = { bytes: stats.blocks * 512, isFresh: false, uid: stats.uid, ino: stats.ino, ctimeMs: 0 };
  addPart(all, identity(stats), file, { pod, sum: of });
}

// Its position is read after the size: who appends is then never before the end.
function noteWriter({ round, pod }, stats, info) {
  const file = round === undefined ? undefined : roundOf(round).files.get(identity(stats));
  if (file === undefined) return;
  const isAtEnd = stats.size > 0 && openedAs(info).position >= stats.size;
  file.writers.set(pod, isAtEnd || file.writers.get(pod) === true);
}

function addSum({ sums }, pod, sum, key) {
  // Files that the walk could not remember may have names anywhere.
  Object.assign(sum, { key, unattributed: sum.forgotten ?? [0, 0, 0, 0], others: [0, 0, 0, 0] });
  sums.set(pod, [...(sums.get(pod) ?? []), sum]);
}

function addPart({ files, most }, id, { bytes, isFresh, uid, ino, ctimeMs }, part) {
  const known = files.get(id);
  if (known !== undefined) known.parts.push(part);
  else if (files.size < most) files.set(id, { bytes, isFresh, uid, ino, ctimeMs, parts: [part], writers: new Map() });
  else addCounts(part.sum.unattributed, bytes, 1, isFresh);
}

// The inode numbers of its files that other pods may share.
function inodesOf(round, pod, most) {
  const numbers = new Set();
  if (round === undefined) return numbers;
  for (const { ino, parts } of roundOf(round, most).files.values()) if (parts.some((part) => part.pod === pod)) numbers.add(ino);
  return numbers;
}

// Reads nothing of the file itself, which could hang. Kernels before 5.14 do not tell the inode.
function openedAs(info) {
  const text = fs.readFileSync(info, 'latin1');
  const flags = /^flags:\s*0*([0-7]+)$/m.exec(text)?.[1] ?? '0';
  const ino = /^ino:\s*([0-9]+)$/m.exec(text)?.[1];
  const position = Number(/^pos:\s*([0-9]+)$/m.exec(text)?.[1] ?? 0);
  return { ino: Number(ino ?? Number.NaN), position, isForWriting: (parseInt(flags, 8) & 3) !== fs.constants.O_RDONLY };
}

// Of the one pod whose directory belongs to the file's user, unless that is root, who may write everywhere; but if it is open
// for writing, only if no other pod has it so. If the user does not tell, of the only one that has it open for writing, and has
// come to its end: one that writes nothing may have it open, too, while another one opens it for moments, or maps it.
function ownerOf({ parts, writers, uid }, sums) {
  const users = uid === ROOT ? [] : parts.filter((part) => usersOf(part, sums).includes(uid));
  // If all who hold a deleted file only read it, the end of one frees nothing.
  if (writers.size === 0) return users.length === 1 && users[0].sum.uid !== undefined ? users[0] : null;
  const writing = (users.length > 0 ? users : parts).filter(({ pod }) => writers.has(pod));
  if (writers.size > 1 || writing.length !== 1) return null;
  return users.length === 1 || writers.get(writing[0].pod) ? writing[0] : null;
}

// A deleted file is in no directory: it may have been in any of the pod's.
const usersOf = ({ pod, sum }, sums) => (sum.uid === undefined ? sums.get(pod).map((of) => of.uid) : [sum.uid]);

function settle({ files, sums, beganMs }, isWhole) {
  for (const file of files.values()) {
    // Its other names are in no pod's directory, unless it got one there after that directory was walked.
    if (file.parts.length === 1 && isWhole && file.ctimeMs < beganMs) continue;
    const owner = ownerOf(file, sums);
    for (const part of file.parts) {
      if (part !== owner) addCounts(owner === null ? part.sum.unattributed : part.sum.others, file.bytes, 1, file.isFresh);
    }
  }
}

function shared({ id, round, pod, walks, isWhole }) {
  const all = roundOf(round, 0);
  if (all.walks !== walks) return say(id, 'failed', 'files of several pods', 'not all pods were walked by the same child');
  if (!all.isSettled) settle(all, isWhole);
  all.isSettled = true;
  const rows = (all.sums.get(pod) ?? []).map(({ key, unattributed, others }) => [...key, ...[...unattributed, ...others].map(Math.floor)]);
  say(id, 'done', rows, true);
}
`;
