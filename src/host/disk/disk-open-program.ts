/**
 * The part of the child's program (disk-walk-program.ts) that finds deleted files that the processes of a cgroup hold open, and
 * who writes to files of several pods.
 */
export const OPEN_PROGRAM = String.raw`
// Deleted files that the processes of a cgroup hold open, each once.
function openFiles({ id, cgroup, inode, deadlineMs, maxLinked, round, pod }) {
  const devices = new Map();
  const counts = () => [...devices].map(([device, { bytes, inodes }]) => [device, bytes, inodes]);
  const state = { ...begin(id, deadlineMs, counts), round, pod, sharedInodes: inodesOf(round, pod, maxLinked) };
  const pids = new Set();
  const seen = new Set();
  let root = null;
  try {
    root = open(cgroup);
    if (root.stats.ino !== inode) return say(id, 'failed', cgroup, 'another cgroup has this path now');
    tree(state, root.fd, root.stats, () => addPids(state, pids), (name, found) =>
      found.isDirectory() ? statsOf(state, name) : null);
    for (const pid of pids) {
      if (isOutOfTime(state)) break;
      let held = filesOf(state, '/proc/' + pid, devices, seen);
      // Its main thread has ended, but others live.
      if (held === 0) {
        for (const thread of namesOf('/proc/' + pid + '/task').slice(0, MAX_THREADS)) {
          if (held > 0 || isOutOfTime(state)) break;
          held = filesOf(state, '/proc/' + pid + '/task/' + thread, devices, seen);
        }
      }
    }
    say(id, 'done', state.counts(), state.isComplete);
  } catch (error) {
    say(id, 'failed', cgroup, String(error.message));
  } finally {
    process.chdir('/');
    if (root !== null) fs.closeSync(root.fd);
  }
}

function addPids(state, pids) {
  try {
    for (const line of fs.readFileSync('cgroup.procs', 'latin1').split('\n')) {
      if (!/^[1-9][0-9]*$/.test(line)) continue;
      if (pids.size >= MAX_PIDS) {
        state.isComplete = false;
        return false;
      }
      pids.add(line);
    }
  } catch (error) {
    // The processes of a threaded cgroup are listed at the root of its domain, which is above it.
    if (error.code !== 'EOPNOTSUPP' && error.code !== 'ENOTSUP' && !GONE.includes(error.code)) state.isComplete = false;
  }
  return true;
}

const namesOf = (path) => {
  try {
    return fs.readdirSync(path);
  } catch {
    return [];
  }
};

// Counts the files that it holds open. Only links that the kernel marks as deleted are followed: another one may hang.
function filesOf(state, process, devices, seen) {
  let directory = null;
  let held = 0;
  try {
    directory = fs.opendirSync(process + '/fd', { bufferSize: READ_AHEAD });
    for (let entry = next(state, directory); entry !== null; entry = next(state, directory)) {
      held += 1;
      if (isOutOfTime(state)) return held;
      state.files += 1;
      if (state.files > MAX_OPEN_FILES) {
        state.isComplete = false;
        return held;
      }
      addOpen(state, process, entry.name, devices, seen);
    }
  } catch (error) {
    if (!GONE.includes(error.code)) state.isComplete = false;
  } finally {
    if (directory !== null) directory.closeSync();
  }
  return held;
}

// A file with a name is looked at only if its inode number is that of one that several pods may share.
function addOpen(state, process, entry, devices, seen) {
  try {
    const link = process + '/fd/' + entry;
    const isDeleted = fs.readlinkSync(link, 'latin1').endsWith(' (deleted)');
    if (!isDeleted && state.sharedInodes.size === 0) return;
    const info = process + '/fdinfo/' + entry;
    const { ino, isForWriting } = openedAs(info);
    if (!isDeleted && !(isForWriting && state.sharedInodes.has(ino))) return;
    const stats = fs.statSync(link);
    if (stats.nlink > 0) return noteWriter(state, stats, info);
    if (!seen.has(identity(stats))) {
      seen.add(identity(stats));
      const of = devices.get(stats.dev) ?? { device: stats.dev, bytes: 0, inodes: 0 };
      if (devices.size >= MAX_DEVICES && !devices.has(stats.dev)) {
        state.isComplete = false;
        return;
      }
      of.bytes += stats.blocks * 512;
      of.inodes += 1;
      devices.set(stats.dev, of);
      noteHeld(state, of, stats);
    }
    if (isForWriting) noteWriter(state, stats, info);
  } catch (error) {
    if (!GONE.includes(error.code)) state.isComplete = false;
  }
}
`;
