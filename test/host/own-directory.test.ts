import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { distrustDirectory, distrustSocket } from '../../src/host/own/own-directory.ts';

const isRoot = process.getuid?.() === 0;
let root: string;
let own: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-own-'));
  own = join(root, 'own');
  mkdirSync(own, { mode: 0o750 });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const asked = (): string | null => distrustDirectory(own, (name) => name === 'state.json');

describe('a directory of our own', () => {
  it('is trusted if only we can write, even if it does not exist yet', () => {
    writeFileSync(join(own, 'state.json'), '{}', { mode: 0o640 });
    expect(asked()).toBeNull();
    own = join(root, 'not', 'yet');
    expect(asked()).toBeNull();
  });

  it('is refused if others can write, with path, owner, mode and what to do', () => {
    chmodSync(own, 0o770);
    expect(asked()).toBe(
      `${own} belongs to user ${process.getuid?.()} and has mode 0770, so that someone other than root could control this agent: ` +
        `check what is in it, then: chown root ${own} && chmod go-w ${own}`,
    );
  });

  it('is refused if others are meant to write, as in /tmp, without advice to keep them out', () => {
    chmodSync(own, 0o1777);
    expect(asked()).toMatch(/has mode 1777, .*: name a directory of its own$/);
  });

  it('is refused if others can write a file in it that is read, but not for any other file', () => {
    writeFileSync(join(own, 'notes'), '');
    chmodSync(join(own, 'notes'), 0o666);
    expect(asked()).toBeNull();
    writeFileSync(join(own, 'state.json'), '{}');
    chmodSync(join(own, 'state.json'), 0o666);
    expect(asked()).toContain(`${join(own, 'state.json')} belongs to user`);
    expect(asked()).toContain('has mode 0666');
  });

  it('is refused below a directory in which anybody can replace it, but not below one like /tmp', () => {
    chmodSync(root, 0o777);
    expect(asked()).toContain(`${root} belongs to user`);
    chmodSync(root, 0o1777);
    expect(asked()).toBeNull();
  });

  it.skipIf(!isRoot)('is refused if it, or anything above or in it, belongs to somebody else [root]', () => {
    chownSync(own, 1234, 1234);
    expect(asked()).toContain(`${own} belongs to user 1234 and has mode 0750`);
    chownSync(own, 0, 0);
    writeFileSync(join(own, 'state.json'), '{}');
    chownSync(join(own, 'state.json'), 1234, 0);
    expect(asked()).toContain(`rm ${join(own, 'state.json')}`);
    rmSync(join(own, 'state.json'));
    chownSync(root, 1234, 0);
    expect(asked()).toContain(`${root} belongs to user 1234`);
  });

  it.skipIf(!isRoot)('is checked at the target of a link [root]', () => {
    const link = join(root, 'link');
    symlinkSync(own, link);
    expect(distrustDirectory(link, () => true)).toBeNull();
    chmodSync(own, 0o777);
    expect(distrustDirectory(link, () => true)).toContain(`${own} belongs to user 0 and has mode 0777`);
  });
});

describe('a socket', () => {
  it.skipIf(!isRoot)('is trusted only if root created it, and nobody else could have [root]', async () => {
    const path = join(own, 'socket');
    expect(distrustSocket(path)).toBeNull();
    const server = createServer().listen(path);
    await new Promise((resolve) => server.once('listening', resolve));
    expect(distrustSocket(path)).toBeNull();
    chownSync(path, 1234, 0);
    expect(distrustSocket(path)).toContain('belongs to user 1234, not to root: what listens there is not nodewarden');
    // `daemon` and `bin` are users 1 and 2 of every Debian.
    chownSync(path, 1, 0);
    expect(distrustSocket(path, 'daemon')).toBeNull();
    chownSync(own, 1, 0);
    expect(distrustSocket(path, 'daemon')).toBeNull();
    expect(distrustSocket(path, 'bin')).toContain('belongs to user 1, not to root or bin: if that user runs it');
    expect(distrustSocket(path, 'no-such-user')).toContain('belongs to user 1, not to root or no-such-user');
    chownSync(own, 2, 0);
    expect(distrustSocket(path, 'daemon')).toContain(`${own} belongs to user 2`);
    chownSync(own, 0, 0);
    chownSync(path, 0, 0);
    chmodSync(own, 0o777);
    expect(distrustSocket(path)).toContain(`${own} belongs to user 0 and has mode 0777`);
    chmodSync(own, 0o1777);
    expect(distrustSocket(path)).toBeNull();
    await new Promise((resolve) => server.close(resolve));
  });
});
