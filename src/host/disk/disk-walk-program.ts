import { LINKED_PROGRAM } from './disk-linked-program.ts';
import { OPEN_PROGRAM } from './disk-open-program.ts';
import { SHARED_PROGRAM } from './disk-shared-program.ts';
import { SURVEY_PROGRAM } from './disk-survey-program.ts';

/**
 * What the child of host/disk/disk-walk.ts runs. Each line of standard input is a request,
 * `{"id":…,"paths":[…],"deadlineMs":…,"maxLinked":…}` or `{"id":…,"cgroup":…,"inode":…,"deadlineMs":…}`, answered by
 * lines `[id,"at",index]` before it opens or enters one of several paths, `[id,"least",counts]`, and finally `[id,"done",counts,isComplete]` or `[id,"failed",path,why]`;
 * disk-survey-program.ts describes the request for what fills a file system, disk-shared-program.ts that for files of
 * several pods. It is text because it runs without the bundle, which would take four times as long to start. Calls are
 * synchronous: 4 µs per file, where one through the thread pool takes 100. It walks by descriptors and from within each
 * directory: if a directory is renamed or replaced meanwhile, the opened one is still walked, each lookup resolves a
 * single name, and no path is too long.
 */
export const WALK_PROGRAM = String.raw`
'use strict';
const fs = require('node:fs');
process.title = 'nodewarden-disk-walk';
// The agent must not be killed when memory is short; this child may be.
try { fs.writeFileSync('/proc/self/oom_score_adj', '0'); } catch {}
// Beside a hundred busy loops it would get a fiftieth of a core; its rests limit what it uses.
try { require('node:os').setPriority(-10); } catch {}

// A slice, then a rest, so that a walk takes at most a quarter of one core (beside-a-kubelet.md H3).
const SLICE_MS = 5;
const REST_MS = 15;
// The way back from deeper levels is "..", and is proven by what is found there.
const MAX_HELD = 256;
// Directories listed but not entered yet, on all levels together. A long name takes the place of several, so that whoever names
// them cannot fill this process's memory.
const MAX_PENDING = 200_000;
const NAME_BYTES = 64;
// Without an earlier walk to compare with, what was created within this time counts as growth.
const FRESH_MS = 60_000;
// Times of files and of this process are rounded differently.
const ROUNDED_MS = 1_000;
const MAX_PATHS = 64;
const MAX_PIDS = 10_000;
const MAX_OPEN_FILES = 200_000;
const MAX_THREADS = 64;
const MAX_DEVICES = 64;
const READ_AHEAD = 64;
const DIRECTORY = fs.constants.O_RDONLY | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW;
const GONE = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ESRCH'];

const nowMs = () => performance.now();
const never = new Int32Array(new SharedArrayBuffer(4));
const rest = () => Atomics.wait(never, 0, 0, REST_MS);
const placesOf = ({ name }) => 1 + Math.floor(name.length / NAME_BYTES);
const identity = (stats) => stats.dev + ':' + stats.ino;
const say = (...words) => fs.writeSync(1, JSON.stringify(words) + '\n');

function begin(id, deadlineMs, counts) {
  return { id, counts, endsMs: nowMs() + deadlineMs, sliceMs: nowMs(), pending: 0, files: 0, isComplete: true };
}

function open(path) {
  const fd = fs.openSync(path, DIRECTORY);
  return { fd, stats: fs.fstatSync(fd) };
}

function walk({ id, paths, deadlineMs, maxLinked, createdSinceMs = 0, round, pod, several = [] }) {
  const opened = [];
  // Which one it is that hangs.
  const sayAt = (at) => paths.length > 1 && say(id, 'at', at);
  try {
    for (const [at, path] of paths.slice(0, MAX_PATHS).entries()) {
      try {
        sayAt(at);
        opened.push({ at, ...open(path) });
      } catch (error) {
        if (error.code === 'ENOENT') continue;
        const isLink = error.code === 'ENOTDIR' || error.code === 'ELOOP';
        return say(id, 'failed', path, isLink ? 'not a directory, or a symbolic link' : String(error.message));
      }
    }
    const totals = [];
    const state = {
      ...begin(id, deadlineMs, () => totals.map(asCounts)),
      freshMs: Math.max(Date.now() - FRESH_MS, createdSinceMs),
      roots: new Set(opened.map(({ stats }) => identity(stats))),
      linked: linkedFiles(maxLinked),
    };
    state.isComplete = paths.length <= MAX_PATHS;
    const seen = new Set();
    for (const { at, fd, stats } of opened) {
      if (seen.has(identity(stats))) continue;
      seen.add(identity(stats));
      sayAt(at);
      const own = stats.blocks * 512;
      // The directory itself stays, and does not count as growth.
      const isOfSeveral = several.includes(paths[at]);
      const total = { at, index: totals.length, isOfSeveral, device: stats.dev, inode: stats.ino, uid: stats.uid, own, bytes: own, inodes: 1, freshBytes: 0, freshInodes: 0, linkedBytes: 0, linkedInodes: 0, forgotten: [0, 0, 0, 0] };
      totals.push(total);

      tree(state, fd, stats, () => true, (name) => {
        const found = statsOf(state, name);
        // Another file system is mounted there. It is not opened: that could hang, or start an automount.
        if (found === null || found.dev !== stats.dev) return null;
        // Another requested directory is in here: it is counted separately.
        if (found.isDirectory() && state.roots.has(identity(found))) return null;
        count(state, total, found);
        return found.isDirectory() ? found : null;
      });
    }
    if (round !== undefined) noteWalk(round, pod, totals, state.linked);
    say(id, 'done', state.counts(), state.isComplete);
  } finally {
    process.chdir('/');
    for (const { fd } of opened) fs.closeSync(fd);
  }
}

// Shares of files with several names are rounded down to whole bytes and inodes.
function asCounts({ at, device, inode, own, bytes, inodes, freshBytes, freshInodes, linkedBytes, linkedInodes }) {
  return [at, device, inode, own, ...[bytes, inodes, freshBytes, freshInodes, linkedBytes, linkedInodes].map(Math.floor)];
}

// Walks a directory and everything below it. enter() is called within each directory and says whether to list it;
// entry() returns what an entry is if it is a directory to enter. A level deeper than MAX_HELD holds no descriptor.
function tree(state, fd, stats, enter, entry) {
  const levels = [];
  const goInto = (descriptor, found, name) => {
    process.chdir('/proc/self/fd/' + descriptor);
    const sum = { bytes: found.blocks * 512 * (levels.length === 0), inodes: 0, uid: found.uid, lead: 0 };
    const level = { fd: descriptor, identity: identity(found), name, pending: [], sum };
    levels.push(level);
    if (enter()) list(state, level, entry);
  };
  const hold = (level) => {
    if (levels.length <= MAX_HELD) return;
    fs.closeSync(level.fd);
    level.fd = null;
  };
  try {
    goInto(fd, stats, '');
    while (levels.length > 0) {
      const level = levels.at(-1);
      const next = level.pending.pop();
      if (next === undefined) {
        goBack(state, levels, fd);
        continue;
      }
      state.pending -= placesOf(next);
      if (isOutOfTime(state)) return;
      let inner = null;
      try {
        inner = fs.openSync(next.name, DIRECTORY);
        const found = fs.fstatSync(inner);
        if (identity(found) !== next.identity) continue;
        goInto(inner, found, next.name);
        hold(levels.at(-1));
        inner = null;
      } catch (error) {
        // An entry that was removed or replaced since it was listed is no gap; a directory that may not be read is one.
        if (!GONE.includes(error.code)) state.isComplete = false;
      } finally {
        if (inner !== null) fs.closeSync(inner);
      }
    }
  } finally {
    while (levels.length > 0) leave(state, levels, fd);
  }
}

// Returns to the directory from which the last one was entered or, if that was moved, to the deepest one that is held.
function goBack(state, levels, root) {
  let isLost = false;
  leave(state, levels, root);
  for (let above = levels.at(-1); above !== undefined; above = levels.at(-1)) {
    try {
      if (above.fd !== null) return process.chdir('/proc/self/fd/' + above.fd);
      if (!isLost) process.chdir('..');
      if (!isLost && identity(fs.statSync('.')) === above.identity) return;
    } catch {}
    isLost = true;
    state.isComplete = false;
    leave(state, levels, root);
  }
}

function leave(state, levels, root) {
  const level = levels.pop();
  for (const left of level.pending) state.pending -= placesOf(left);
  if (level.fd !== null && level.fd !== root) fs.closeSync(level.fd);
  state.left?.(level, levels);
}

function list(state, level, entry) {
  let directory = null;
  try {
    // latin1 keeps names byte for byte, whatever they are encoded in.
    directory = fs.opendirSync('.', { encoding: 'latin1', bufferSize: READ_AHEAD });
    for (let found = next(state, directory); found !== null; found = next(state, directory)) {
      if (isOutOfTime(state)) return;
      const name = /^[\x00-\x7f]*$/.test(found.name) ? found.name : Buffer.from(found.name, 'latin1');
      const stats = entry(name, found, level);
      if (stats === null) continue;
      if (state.pending >= MAX_PENDING) {
        state.isComplete = false;
        continue;
      }
      const inner = { name, identity: identity(stats) };
      state.pending += placesOf(inner);
      level.pending.push(inner);
    }
  } catch (error) {
    if (!GONE.includes(error.code)) state.isComplete = false;
  } finally {
    if (directory !== null) directory.closeSync();
  }
}

// If a file system does not report the type of an entry, Node looks it up by name, and throws for one that is gone or
// whose name is not text: the rest of this directory is then not seen.
function next(state, directory) {
  try {
    return directory.readSync();
  } catch {
    state.isComplete = false;
    return null;
  }
}

function statsOf(state, name) {
  try {
    return fs.lstatSync(name, { throwIfNoEntry: false }) ?? null;
  } catch {
    state.isComplete = false;
    return null;
  }
}

function count(state, total, stats) {
  const bytes = stats.blocks * 512;
  const share = isOne(stats, total) ? 1 : shareOf(state, total, stats, bytes);
  total.bytes += bytes * share;
  total.inodes += share;
  if (!isNew(state, stats)) return;
  total.freshBytes += bytes * share;
  total.freshInodes += share;
}

// A file from the future is older than a clock that was set back.
function isNew({ freshMs }, { birthtimeMs }) {
  return birthtimeMs >= freshMs && birthtimeMs <= Date.now() + ROUNDED_MS;
}

function isOutOfTime(state) {
  const now = nowMs();
  if (now > state.endsMs) {
    state.isComplete = false;
    return true;
  }
  if (now - state.sliceMs < SLICE_MS) return false;
  say(state.id, 'least', state.counts());
  rest();
  state.sliceMs = nowMs();
  return false;
}

${LINKED_PROGRAM}
${OPEN_PROGRAM}
${SHARED_PROGRAM}
${SURVEY_PROGRAM}
const bytes = Buffer.alloc(64 * 1024);
let text = '';
// Ends when the parent closes either side.
for (let read = fs.readSync(0, bytes); read > 0; read = fs.readSync(0, bytes)) {
  text += bytes.latin1Slice(0, read);
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
    const question = JSON.parse(Buffer.from(text.slice(0, at), 'latin1').toString('utf8'));
    text = text.slice(at + 1);
    if ('paths' in question) walk(question);
    else if ('walks' in question) shared(question);
    else if ('survey' in question) survey(question);
    else openFiles(question);
  }
}
`;
