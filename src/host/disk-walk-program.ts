/**
 * What the child of host/disk-walk.ts runs: a line `{"id":…,"paths":[…],"deadlineMs":…}` of standard input is a question, answered by
 * lines `[id,"least",bytes,inodes]` and at the end `[id,"done",bytes,inodes,isComplete]` or `[id,"failed",path,why]`. Text,
 * because it runs without the bundle, which would take four times as long to start. Calls are synchronous: 4 µs for each
 * file, where one through the thread pool takes 100. It walks by descriptors and from within each directory: one that is
 * renamed or replaced meanwhile is still the one that was opened, and no name is ever resolved further than one step.
 */
export const WALK_PROGRAM = String.raw`
'use strict';
const fs = require('node:fs');
process.title = 'nodewarden-disk-walk';
// The agent is not to be killed for want of memory; this child may be.
try { fs.writeFileSync('/proc/self/oom_score_adj', '0'); } catch {}

// A slice, then a rest, so that a walk takes at most a quarter of one core (beside-a-kubelet.md H3).
const SLICE_MS = 5;
const REST_MS = 15;
// Each level holds two descriptors.
const MAX_DEPTH = 256;
// Files with several names that are remembered; further ones are left out, and the figures mean "at least".
const MAX_LINKED = 100_000;
const MAX_PATHS = 64;
const READ_AHEAD = 64;
const DIRECTORY = fs.constants.O_RDONLY | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW;
const GONE = ['ENOENT', 'ENOTDIR', 'ELOOP'];

const nowMs = () => performance.now();
const never = new Int32Array(new SharedArrayBuffer(4));
const rest = () => Atomics.wait(never, 0, 0, REST_MS);
const identity = (stats) => stats.dev + ':' + stats.ino;
const say = (...words) => fs.writeSync(1, JSON.stringify(words) + '\n');

function walk({ id, paths, deadlineMs }) {
  const opened = [];
  try {
    for (const path of paths.slice(0, MAX_PATHS)) {
      try {
        const fd = fs.openSync(path, DIRECTORY);
        opened.push({ fd, stats: fs.fstatSync(fd) });
      } catch (error) {
        if (error.code === 'ENOENT') continue;
        const isLink = error.code === 'ENOTDIR' || error.code === 'ELOOP';
        return say(id, 'failed', path, isLink ? 'not a directory, or a symbolic link' : String(error.message));
      }
    }
    const state = {
      id,
      endsMs: nowMs() + deadlineMs,
      sliceMs: nowMs(),
      roots: new Set(opened.map(({ stats }) => identity(stats))),
      linked: new Set(),
      bytes: 0,
      inodes: 0,
      isComplete: paths.length <= MAX_PATHS,
    };
    const seen = new Set();
    for (const { fd, stats } of opened) {
      if (seen.has(identity(stats))) continue;
      seen.add(identity(stats));
      count(state, stats);
      walkDirectory(state, fd, stats.dev, 1);
    }
    say(id, 'done', state.bytes, state.inodes, state.isComplete);
  } finally {
    process.chdir('/');
    for (const { fd } of opened) fs.closeSync(fd);
  }
}

function walkDirectory(state, fd, device, depth) {
  const here = '/proc/self/fd/' + fd;
  let directory = null;
  try {
    process.chdir(here);
    // latin1 keeps names byte for byte, whatever they are encoded in.
    directory = fs.opendirSync('.', { encoding: 'latin1', bufferSize: READ_AHEAD });
    for (let entry = next(state, directory); entry !== null; entry = next(state, directory)) {
      if (isOutOfTime(state)) return;
      const name = /^[\x00-\x7f]*$/.test(entry.name) ? entry.name : Buffer.from(entry.name, 'latin1');
      const stats = statsOf(state, name);
      // Another file system is mounted there. Seen without opening it: that could hang, or start an automount.
      if (stats === null || stats.dev !== device) continue;
      if (!stats.isDirectory()) count(state, stats);
      else if (descend(state, name, stats, depth)) process.chdir(here);
    }
  } catch (error) {
    if (!GONE.includes(error.code)) state.isComplete = false;
  } finally {
    if (directory !== null) directory.closeSync();
  }
}

// Where a file system does not tell the type of an entry Node looks it up by name, and throws for one that is gone or whose
// name is not text: what follows in this directory is not seen then.
function next(state, directory) {
  try {
    return directory.readSync();
  } catch {
    state.isComplete = false;
    return null;
  }
}

/** True: we are elsewhere now. */
function descend(state, name, stats, depth) {
  // One of the other directories asked for lies in here: it is counted by itself.
  if (state.roots.has(identity(stats))) return false;
  count(state, stats);
  if (depth >= MAX_DEPTH) {
    state.isComplete = false;
    return false;
  }
  let fd = null;
  try {
    fd = fs.openSync(name, DIRECTORY);
    if (identity(fs.fstatSync(fd)) !== identity(stats)) return false;
    walkDirectory(state, fd, stats.dev, depth + 1);
    return true;
  } catch (error) {
    // Removed or replaced since it was listed is no gap; a directory that may not be read is one.
    if (!GONE.includes(error.code)) state.isComplete = false;
    return false;
  } finally {
    if (fd !== null) fs.closeSync(fd);
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

function count(state, stats) {
  if (stats.nlink > 1 && !stats.isDirectory()) {
    if (state.linked.has(identity(stats))) return;
    if (state.linked.size >= MAX_LINKED) {
      state.isComplete = false;
      return;
    }
    state.linked.add(identity(stats));
  }
  state.bytes += stats.blocks * 512;
  state.inodes += 1;
}

function isOutOfTime(state) {
  const now = nowMs();
  if (now > state.endsMs) {
    state.isComplete = false;
    return true;
  }
  if (now - state.sliceMs < SLICE_MS) return false;
  say(state.id, 'least', state.bytes, state.inodes);
  rest();
  state.sliceMs = nowMs();
  return false;
}

const bytes = Buffer.alloc(64 * 1024);
let text = '';
// Nobody asks any more, or nobody hears: then it ends.
for (let read = fs.readSync(0, bytes); read > 0; read = fs.readSync(0, bytes)) {
  text += bytes.latin1Slice(0, read);
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
    const question = JSON.parse(Buffer.from(text.slice(0, at), 'latin1').toString('utf8'));
    text = text.slice(at + 1);
    walk(question);
  }
}
`;
