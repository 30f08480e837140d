/**
 * The part of the child's program (disk-walk-program.ts) that remembers the files of one walk that other pods may have, too: those
 * with several names, and all in a directory of several pods.
 */
export const LINKED_PROGRAM = `
// These files are remembered up to the number in the request, separately by size; beyond it, each name
// counts its share.
const LARGE_BYTES = 65_536;
const FRESH = 1;
const SPREAD = 2;

// In columns: an object for each of 200,000 files would need more memory than this child has.
function linkedFiles(most) {
  const files = () => ({
    at: new Map(),
    left: new Uint32Array(most),
    bytes: new Float64Array(most),
    ctimeMs: new Float64Array(most),
    uid: new Uint32Array(most),
    flags: new Uint8Array(most),
    total: new Uint8Array(most),
  });
  return { most, device: null, small: files(), large: files() };
}

// A number takes less memory than a text, and nearly all files are on one device.
function keyOf(linked, { dev, ino }) {
  linked.device ??= dev;
  return dev === linked.device ? ino : dev + ':' + ino;
}

// A file in a directory of several pods always has a name elsewhere.
const isOne = (stats, total) => stats.isDirectory() || (stats.nlink === 1 && !total.isOfSeveral);

// A file with several names is counted at its first name. If one of its names is elsewhere, it outlives this directory.
// If there are too many to remember, each name counts its share, so all names here add up to at most the whole.
function shareOf(state, total, stats, bytes) {
  const { linked } = state;
  const files = bytes < LARGE_BYTES ? linked.small : linked.large;
  const key = keyOf(linked, stats);
  const known = files.at.get(key);
  if (known !== undefined) {
    if (!total.isOfSeveral) files.left[known] -= 1;
    if (files.total[known] !== total.index) files.flags[known] |= SPREAD;
    if (files.left[known] === 0 && !(files.flags[known] & SPREAD)) {
      total.linkedBytes -= files.bytes[known];
      total.linkedInodes -= 1;
    }
    return 0;
  }
  const at = files.at.size;
  const isRemembered = at < linked.most;
  const share = isRemembered ? 1 : 1 / stats.nlink;
  const isFresh = isNew(state, stats);
  total.linkedBytes += bytes * share;
  total.linkedInodes += share;
  if (!isRemembered) {
    if (stats.nlink > 1) state.isComplete = false;
    addCounts(total.forgotten, bytes * share, share, isFresh);
    return share;
  }
  files.at.set(key, at);
  files.left[at] = stats.nlink - 1 + (total.isOfSeveral ? 1 : 0);
  files.bytes[at] = bytes;
  files.ctimeMs[at] = stats.ctimeMs;
  files.uid[at] = stats.uid;
  files.flags[at] = isFresh ? FRESH : 0;
  files.total[at] = total.index;
  return 1;
}

// Calls back for each that has names elsewhere: its identity, what is known of it, and the index of its total.
function eachElsewhere({ device, small, large }, run) {
  for (const files of [large, small]) {
    for (const [key, at] of files.at) {
      if (files.left[at] === 0) continue;
      const isNumber = typeof key === 'number';
      const ino = isNumber ? key : Number(key.split(':')[1]);
      const [bytes, ctimeMs, uid] = [files.bytes[at], files.ctimeMs[at], files.uid[at]];
      const file = { ino, bytes, ctimeMs, uid, isFresh: (files.flags[at] & FRESH) !== 0 };
      run(isNumber ? device + ':' + key : key, file, files.total[at]);
    }
  }
}

function addCounts(counts, bytes, inodes, isFresh) {
  const more = [bytes, inodes, isFresh ? bytes : 0, isFresh ? inodes : 0];
  for (const [i, count] of more.entries()) counts[i] += count;
}
`;
