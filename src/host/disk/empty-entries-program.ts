/**
 * The part of host/disk/empty-directory-program.ts that removes, from within the opened directory `top`, whose identity and mount
 * are proven. It goes down and back up name by name, so that no path is too long and no depth needs more descriptors: the way
 * back is "..", and is proven by what is found there.
 *
 * A pod that runs again keeps its files. Whether it runs is asked before the first removal and all the time; and what was
 * created or changed since the pod was last known to be dead is not removed at all, also if that is not noticed. A file keeps
 * the time of its last change by the wall clock. If that clock was set back since then, newer files look older, so the bound
 * is set back with it; a clock that was set forward only makes newer files look newer.
 */
export const EMPTY_ENTRIES_PROGRAM = `
const ASK_AFTER_ENTRIES = 50;
const ASK_AFTER_MS = 20;
// In one look; a tenant may make any number of cgroups.
const MAX_CGROUPS = 500;
// Names of directories that were listed but not entered yet, on all levels together. Beyond it, a directory is listed again.
const MAX_PENDING = 50_000;
const MAX_LINKED = 100_000;
// The kernel stamps files with a clock that advances with its timer, every 10 ms at the slowest.
const COARSE_CLOCK_MS = 20;
const MAX_TOLD = 10;
const FILE = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW;

const awakeMs = () => Number(process.hrtime.bigint()) / 1e6;
const read = (file) => {
  try {
    const fd = fs.openSync(file, FILE);
    try {
      return fs.readFileSync(fd, 'latin1');
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return null; // It does not exist: then nobody runs there.
  }
};
const childrenOf = (cgroup) => {
  try {
    const entries = fs.readdirSync(cgroup, { withFileTypes: true, encoding: 'buffer' });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => Buffer.concat([cgroup, Buffer.from('/'), name]));
  } catch {
    return [];
  }
};
const isRunning = () => {
  if (asked.cgroup === null) return false;
  const events = read(asked.cgroup + '/cgroup.events');
  if (events !== null) return /^populated 1$/m.test(events);
  const cgroups = [Buffer.from(asked.cgroup)];
  for (let at = 0; at < cgroups.length && at < MAX_CGROUPS; at++) {
    if (read(Buffer.concat([cgroups[at], Buffer.from('/cgroup.procs')]))) return true;
    if (cgroups.length < MAX_CGROUPS) cgroups.push(...childrenOf(cgroups[at]));
  }
  return false;
};

let removed = 0;
let entriesSince = 0;
let askedAtMs = -Infinity;
const askAgain = () => {
  if (++entriesSince < ASK_AFTER_ENTRIES && awakeMs() - askedAtMs < ASK_AFTER_MS) return;
  if (isRunning()) end(removed === 0 ? AS.runsAgain : AS.runsAgainMeanwhile);
  entriesSince = 0;
  askedAtMs = awakeMs();
};

// How much the wall clock is ahead of the other one; never too high, however long this process is paused in between.
const aheadMs = () => {
  for (let tries = 1; ; tries++) {
    const beforeMs = awakeMs();
    const wallMs = Date.now();
    const afterMs = awakeMs();
    if (afterMs - beforeMs < 1 || tries === 10) return wallMs - afterMs;
  }
};
let setBackMs = 0;
// Reads the clock after the file's time was read, so that a clock that was set back before that is noticed.
const isOld = (ctimeMs) => {
  setBackMs = Math.min(setBackMs, aheadMs() - (asked.end.wallMs - asked.end.awakeMs));
  return ctimeMs < asked.end.wallMs - COARSE_CLOCK_MS + setBackMs;
};

// Removing one name of a file changes it for its other names.
const linked = new Map();
const isOldFile = ({ ino, ctimeMs }) => {
  const ours = linked.get(ino);
  const isOurs = ours !== undefined && ctimeMs >= ours.fromMs - COARSE_CLOCK_MS && ctimeMs <= ours.toMs;
  return isOurs || isOld(Number(ctimeMs));
};
const unlink = (name, { ino, nlink }) => {
  askAgain();
  const fromMs = Date.now();
  fs.unlinkSync(name);
  removed += 1;
  if (nlink > 1n && linked.size < MAX_LINKED) linked.set(ino, { fromMs, toMs: Date.now() + 1 });
  else linked.delete(ino);
};

let isWhole = true;
let isAnyChanged = false;
let isAnyDeclared = false;
let told = 0;
let firstCode = '';
const fail = (name, error) => {
  if (error.code === 'ENOENT') return;
  isWhole = false;
  firstCode ||= error.code;
  if (told++ < MAX_TOLD) console.error(JSON.stringify(name.toString('latin1')) + ': ' + error.code);
};

let pending = 0;
const levelOf = (stats, name) => ({ identity: identity(stats), isOld: isOld(Number(stats.ctimeMs)), name, pending: [], left: new Set(), isPart: false, progress: 0 });

const visit = (level, name) => {
  const stats = fs.lstatSync(name, { bigint: true });
  if (!stats.isDirectory()) {
    if (!isOldFile(stats)) isAnyChanged = true;
    else {
      unlink(name, stats);
      level.progress += 1;
    }
    return;
  }
  if (level.left.has(stats.ino)) return;
  if (kept.has(asAsked(stats))) isAnyDeclared = true;
  else if (stats.dev !== top.dev) fail(name, { code: 'EXDEV' });
  else if (pending >= MAX_PENDING && level.pending.length > 0) level.isPart = true;
  else {
    pending += 1;
    level.pending.push(name);
  }
};
// If a file system does not report the type of an entry, Node looks it up by name, and throws for one whose name is not text.
const next = (directory) => {
  try {
    return directory.readSync();
  } catch (error) {
    fail(Buffer.from('.'), { code: 'not listed' });
    return null;
  }
};
const list = (level) => {
  level.isPart = false;
  level.progress = 0;
  // latin1 keeps names byte for byte, whatever they are encoded in.
  const directory = fs.opendirSync('.', { encoding: 'latin1' });
  try {
    for (let entry = next(directory); entry !== null; entry = next(directory)) {
      const name = Buffer.from(entry.name, 'latin1');
      try {
        visit(level, name);
      } catch (error) {
        fail(name, error);
      }
    }
  } finally {
    directory.closeSync();
  }
};

const enter = (levels, name) => {
  const inner = fs.openSync(name, DIRECTORY);
  try {
    const stats = fs.fstatSync(inner, { bigint: true });
    // It may have been replaced since it was listed.
    if (stats.dev !== top.dev || kept.has(asAsked(stats))) return;
    process.chdir('/proc/self/fd/' + inner);
    const level = levelOf(stats, name);
    levels.push(level);
    list(level);
  } finally {
    fs.closeSync(inner);
  }
};
const removeDirectory = (level, { name, isOld, identity: emptied }) => {
  const stats = fs.lstatSync(name, { bigint: true });
  level.left.add(stats.ino);
  if (!isOld || identity(stats) !== emptied) {
    isAnyChanged = true;
    return;
  }
  askAgain();
  try {
    fs.rmdirSync(name);
  } catch (error) {
    // What is left in it was reported, or is new.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    isAnyChanged ||= isWhole && !isAnyDeclared;
    return;
  }
  level.left.delete(stats.ino);
  level.progress += 1;
  removed += 1;
};
// False: the directory was moved meanwhile, and the way back is lost.
const leave = (levels) => {
  const emptied = levels.pop();
  const level = levels.at(-1);
  if (level === undefined) return true;
  process.chdir('..');
  if (identity(fs.statSync('.', { bigint: true })) !== level.identity) return false;
  try {
    removeDirectory(level, emptied);
  } catch (error) {
    fail(emptied.name, error);
  }
  return true;
};
const empty = () => {
  const levels = [levelOf(top, null)];
  list(levels[0]);
  while (levels.length > 0) {
    const level = levels.at(-1);
    const name = level.pending.pop();
    if (name !== undefined) {
      pending -= 1;
      try {
        enter(levels, name);
      } catch (error) {
        fail(name, error);
      }
    } else if (level.isPart && level.progress > 0) list(level);
    else if (!leave(levels)) throw new Error('a directory was moved');
  }
};
try {
  empty();
} catch (error) {
  fail(Buffer.from('.'), error.code === 'ENOENT' ? { code: 'moved' } : error);
}
if (isAnyDeclared) end(AS.holdsDeclared);
if (!isWhole) endNotAll(firstCode);
end(isAnyChanged ? AS.changed : 0);
`;
