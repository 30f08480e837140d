import { EMPTY_ENTRIES_PROGRAM } from './empty-entries-program.ts';

/** The exit statuses of the program, besides 0 and those of `unshare` and Node.js, which are lower. */
export const EMPTIED_AS = {
  link: 20,
  mount: 21,
  notAll: 22,
  notApart: 23,
  runsAgain: 24,
  runsAgainMeanwhile: 25,
  unsafe: 26,
  another: 27,
  declared: 28,
  holdsDeclared: 29,
  changed: 30,
} as const;
/** Above it: not everything could be removed, for the error of that number. Statuses from 200 on are systemd's. */
export const NOT_ALL_FOR_ERROR = 60;

/**
 * Run by Node.js with the path as argument and `asked` as what host/disk/empty-directory.ts asks, in a mount namespace of its own.
 * The owner of the directory may at any moment replace any directory by a link and mount anything anywhere. Therefore the
 * path is opened name by name without following links, whether it is the right directory is judged by what was opened, and
 * this is mounted a second time, alone, where nobody else can mount: below it there is only this one file system, without
 * the mounts in it. What is removed is named from within.
 */
export const EMPTY_DIRECTORY_PROGRAM = String.raw`
const fs = require('node:fs');
const { spawnSync } = require('node:child_process');
const { errno } = require('node:os').constants;
const [path] = process.argv.slice(2);
const AS = ${JSON.stringify(EMPTIED_AS)};
const DIRECTORY = fs.constants.O_RDONLY | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;
const ROOT = 0n;
const end = (status) => process.exit(status);
const endNotAll = (code) => end(code in errno ? ${NOT_ALL_FOR_ERROR} + errno[code] : AS.notAll);
process.on('uncaughtException', (error) => {
  console.error(error);
  endNotAll(error.code);
});
const identity = ({ dev, ino }) => dev + ':' + ino;
// As the agent writes it, which reads inodes as numbers.
const asAsked = ({ dev, ino }) => Number(dev) + ':' + Number(ino);
const [kept, others] = [new Set(asked.kept), new Set(asked.others)];

// Who may write to a directory on the way may put another user's directory at the next name, and so may its owner. The
// same rule in words: host/disk/mounts.ts.
const isOpenToOthers = ({ mode }) => (Number(mode) & OTHERS_WRITE) !== 0 && (Number(mode) & STICKY) === 0;
const isHandedOn = (above, next) => above.uid !== ROOT && above.uid !== next.uid;

const unescape = (text) => text.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8)));
const isMounted = () => fs.readFileSync('/proc/self/mountinfo', 'latin1').split('\n').some((line) => {
  const at = Buffer.from(unescape(line.split(' ')[4] ?? ''), 'latin1').toString();
  return at === path || at.startsWith(path + '/');
});
// Before it is opened, too: that could hang.
if (isMounted()) end(AS.mount);

process.chdir('/');
let mount = null;
let fd = null;
let isMountPoint = false;
let isUnsafe = false;
let isOfOthers = false;
let above = fs.statSync('.', { bigint: true });
for (const name of path.split('/').filter((part) => part !== '')) {
  try {
    if (fd !== null) fs.closeSync(fd);
    fd = fs.openSync(name, DIRECTORY);
    process.chdir('/proc/self/fd/' + fd);
  } catch (error) {
    end(error.code === 'ENOENT' ? 0 : AS.link);
  }
  const stats = fs.fstatSync(fd, { bigint: true });
  isUnsafe ||= isOpenToOthers(above) || isHandedOn(above, stats);
  isOfOthers ||= others.has(asAsked(stats));
  above = stats;
  const mountAbove = mount;
  mount = /^mnt_id:\s*([0-9]+)$/m.exec(fs.readFileSync('/proc/self/fdinfo/' + fd, 'latin1'))?.[1];
  isMountPoint = mount === undefined || (mountAbove !== null && mountAbove !== mount);
}
if (isMountPoint) end(AS.mount);
if (isUnsafe) end(AS.unsafe);
if (isOfOthers || kept.has(asAsked(above))) end(AS.declared);
if (asked.measured !== null && asked.measured !== asAsked(above)) end(AS.another);

if (isMounted()) end(AS.mount);

// Whatever was at APART is hidden in this namespace alone.
const APART = '/tmp';
const args = ['--no-canonicalize', '--bind', '/proc/self/fd/3', APART];
if (spawnSync('mount', args, { stdio: ['ignore', 'inherit', 'inherit', fd] }).status !== 0) end(AS.notApart);
process.chdir(APART);
const top = fs.statSync('.', { bigint: true });
if (identity(top) !== identity(above)) end(AS.notApart);
${EMPTY_ENTRIES_PROGRAM}
`;
