import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DIST = path.join(ROOT, 'dist');

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-deb-test-'));
afterAll(() => fs.rmSync(scratch, { recursive: true }));

function has(program: string): boolean {
  return spawnSync('sh', ['-c', 'command -v "$0"', program]).status === 0;
}

type Built = { readonly agent: string; readonly guard: string };

/** The packages without that of Node.js, made under another umask and time zone. */
function build(name: string, timeZone: string, umask: string): Built {
  const outdir = path.join(scratch, name);
  const script = `umask ${umask}; exec "$0" scripts/deb.mjs --without-node --outdir "$1"`;
  const env = { ...process.env, TZ: timeZone };
  execFileSync('sh', ['-c', script, process.execPath, outdir], { cwd: ROOT, env });
  const made = (start: string): string =>
    path.join(outdir, fs.readdirSync(outdir).find((file) => file.startsWith(start) && file.endsWith('.deb')) ?? '');
  return { agent: made('nodewarden_'), guard: made('nodewarden-guard_') };
}

/** The files of a package. */
function filesIn(deb: string): readonly string[] {
  const listed = execFileSync('dpkg-deb', ['--fsys-tarfile', deb], { maxBuffer: 1 << 28 });
  return execFileSync('tar', ['-t'], { input: listed, encoding: 'utf8' })
    .split('\n')
    .map((file) => file.slice(1))
    .filter((file) => file !== '' && !file.endsWith('/'));
}

describe.skipIf(!has('dpkg-buildpackage') || !has('dh'))('the Debian packages [needs dpkg-dev and debhelper]', () => {
  let deb: Built = { agent: '', guard: '' };
  let files: readonly string[] = [];
  const field = (of: string, name: string): string =>
    execFileSync('dpkg-deb', ['-f', of, name], { encoding: 'utf8' }).trim();

  beforeAll(() => {
    deb = build('first', 'UTC', '022');
    files = filesIn(deb.agent);
  }, 600_000);

  it('are byte-identical when they are built again', () => {
    const second = build('second', 'Pacific/Kiritimati', '077');
    expect(fs.readFileSync(second.agent).equals(fs.readFileSync(deb.agent))).toBe(true);
    expect(fs.readFileSync(second.guard).equals(fs.readFileSync(deb.guard))).toBe(true);
  }, 600_000);
  it('contain the whole bundle, and the pages where people look for them', () => {
    const bundle = fs
      .readdirSync(DIST)
      .filter((name) => !/\.(map|tmp)$/.test(name) && fs.statSync(path.join(DIST, name)).isFile());
    expect(bundle.length).toBeGreaterThan(5);
    expect(files).toEqual(
      expect.arrayContaining([
        ...bundle.map((name) => `/usr/lib/nodewarden/${name}`),
        '/usr/bin/nodewarden',
        '/usr/lib/systemd/system/nodewarden.service',
        '/usr/lib/systemd/system/nodewarden.service.d/20-standalone-order.conf',
        '/usr/share/bash-completion/completions/nodewarden',
        '/usr/share/doc/nodewarden/changelog.Debian.gz',
        '/usr/share/doc/nodewarden/copyright',
        '/usr/share/man/man1/nodewarden.1.gz',
        '/usr/share/man/man5/nodewarden-guard.5.gz',
        '/usr/share/man/man5/nodewarden.5.gz',
        '/usr/share/nodewarden/scenarios/memory-leak.yaml',
      ]),
    );
    expect(files.filter((file) => /\.map$|^\/usr\/lib\/nodewarden\/node$/.test(file))).toEqual([]);
  });
  it('depend on a recent Node.js, and have no conffile that dpkg could ask about', () => {
    expect(field(deb.agent, 'Depends')).toContain('nodejs (>= 20.19) | nodewarden-node');
    expect(files.filter((file) => file.startsWith('/etc/'))).toEqual([]);
  });
  it('bring the guard apart: its service, which depends on the agents', () => {
    expect(field(deb.guard, 'Depends')).toContain('fence-agents');
    expect(field(deb.guard, 'Depends')).toContain(`nodewarden (= ${field(deb.agent, 'Version')})`);
    expect(field(deb.agent, 'Depends')).not.toContain('fence-agents');
    const own = filesIn(deb.guard).filter((file) => !file.startsWith('/usr/share/doc/'));
    expect(own).toEqual([
      '/usr/lib/systemd/system/nodewarden-guard.service',
      '/usr/lib/sysusers.d/nodewarden-guard.conf',
    ]);
    expect(files).not.toContain(own[0]);
  });
  it.skipIf(!has('lintian'))(
    'have no error according to lintian [needs lintian]',
    () => {
      const said = spawnSync('lintian', ['--fail-on', 'error', deb.agent, deb.guard], { encoding: 'utf8' });
      expect({ status: said.status, errors: said.stdout.match(/^E: .*$/gm) }).toEqual({ status: 0, errors: null });
    },
    120_000,
  );
});
