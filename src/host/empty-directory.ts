import type { CommandRunner } from './transient.ts';

/** What each exit status of the program means. */
const SAID: { readonly [status: number]: string } = {
  1: 'it needs a mount namespace of its own, which could not be created (unshare); the journal says why',
  3: 'it, or a directory above it, is a symbolic link or not a directory',
  4: 'a file system is mounted at it or below it',
  5: 'not everything in it could be removed',
  6: 'it could not be bind-mounted on its own (mount --bind); the journal says why',
};

/**
 * Run by Node.js with the path as argument, in a mount namespace of its own. The owner of the directory may at any moment
 * replace any directory by a link and mount anything anywhere. Therefore the path is opened name by name without following
 * links, and the opened directory is mounted a second time, alone, where nobody else can mount: below it there is only this
 * one file system, without the mounts in it. What is removed is named from within. Directories first get a name of ours,
 * which is plain text; rm(1) never follows links below it.
 */
const PROGRAM = String.raw`
'use strict';
const fs = require('node:fs');
const { spawnSync } = require('node:child_process');
const [path] = process.argv.slice(2);
const DIRECTORY = fs.constants.O_RDONLY | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW;
const PASSES = 3;
const BATCH = 100;
const IS_PLAIN = /^[\x21-\x7e]+$/;
const end = (status) => process.exit(status);
let isMountPoint = false;

process.chdir('/');
let mount = null;
let fd = null;
for (const name of path.split('/').filter((part) => part !== '')) {
  try {
    if (fd !== null) fs.closeSync(fd);
    fd = fs.openSync(name, DIRECTORY);
    process.chdir('/proc/self/fd/' + fd);
  } catch (error) {
    end(error.code === 'ENOENT' ? 0 : 3);
  }
  const above = mount;
  mount = /^mnt_id:\s*([0-9]+)$/m.exec(fs.readFileSync('/proc/self/fdinfo/' + fd, 'latin1'))?.[1];
  isMountPoint = mount === undefined || (above !== null && above !== mount);
}
if (isMountPoint) end(4);

const unescape = (text) => text.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8)));
const isMounted = fs.readFileSync('/proc/self/mountinfo', 'latin1').split('\n').some((line) => {
  const at = Buffer.from(unescape(line.split(' ')[4] ?? ''), 'latin1').toString();
  return at === path || at.startsWith(path + '/');
});
if (isMounted) end(4);

// Whatever was at APART is hidden in this namespace alone.
const APART = '/tmp';
const args = ['--no-canonicalize', '--bind', '/proc/self/fd/3', APART];
if (spawnSync('mount', args, { stdio: ['ignore', 'inherit', 'inherit', fd] }).status !== 0) end(6);
process.chdir(APART);
const [is, was] = [fs.statSync('.'), fs.fstatSync(fd)];
if (is.dev !== was.dev || is.ino !== was.ino) end(6);

let names = 0;
let isWhole = true;
const PREFIX = '.nodewarden-emptied-';
const named = (name) => {
  const text = name.toString('latin1');
  // Listed again under the name that it got.
  if (text.startsWith(PREFIX) && IS_PLAIN.test(text)) return text;
  names += 1;
  const mine = PREFIX + process.pid + '-' + names;
  try {
    fs.renameSync(name, mine);
    return mine;
  } catch (error) {
    // A full disk may have no room for the name.
    if (error.code !== 'ENOSPC' || !IS_PLAIN.test(text)) throw error;
    return text;
  }
};
const remove = (ours) => {
  if (ours.length === 0) return;
  const args = ['-rf', '--one-file-system', '--', ...ours.map((name) => './' + name)];
  if (spawnSync('rm', args, { stdio: ['ignore', 'inherit', 'inherit'] }).status !== 0) isWhole = false;
};
for (let pass = 0, found = true; found && pass < PASSES; pass++) {
  found = false;
  isWhole = true;
  let ours = [];
  const directory = fs.opendirSync('.', { encoding: 'latin1' });
  for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
    const name = Buffer.from(entry.name, 'latin1');
    found = true;
    try {
      if (!entry.isDirectory()) {
        fs.unlinkSync(name);
        continue;
      }
      ours.push(named(name));
      if (ours.length < BATCH) continue;
      remove(ours);
      ours = [];
    } catch (error) {
      if (error.code !== 'ENOENT') isWhole = false;
    }
  }
  directory.closeSync();
  remove(ours);
}
end(isWhole ? 0 : 5);
`;

const APART = ['unshare', '--mount', '--propagation', 'private'];

/** Empties a directory but keeps it. Null: done, or it does not exist; else a sentence that says why not. */
export async function emptyDirectory(run: CommandRunner, path: string, timeoutMs: number): Promise<string | null> {
  const ended = await run({ argv: [...APART, process.execPath, '-', path], timeoutMs, stdin: PROGRAM });
  switch (ended.kind) {
    case 'exited':
      return ended.code === 0 ? null : (SAID[ended.code] ?? `exit status ${ended.code}`);
    case 'timed-out':
      return `it was not finished after ${timeoutMs / 1_000} s`;
    case 'failed':
      return ended.detail;
  }
}
