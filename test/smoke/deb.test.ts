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

/** The package without that of Node.js, made under another umask and time zone. */
function build(name: string, timeZone: string, umask: string): string {
  const outdir = path.join(scratch, name);
  const script = `umask ${umask}; exec "$0" scripts/deb.mjs --without-node --outdir "$1"`;
  const env = { ...process.env, TZ: timeZone };
  execFileSync('sh', ['-c', script, process.execPath, outdir], { cwd: ROOT, env });
  const [deb = ''] = fs.readdirSync(outdir).filter((file) => file.endsWith('.deb'));
  return path.join(outdir, deb);
}

describe.skipIf(!has('dpkg-buildpackage') || !has('dh'))('the Debian package [needs dpkg-dev and debhelper]', () => {
  let deb = '';
  let files: readonly string[] = [];
  const field = (name: string): string => execFileSync('dpkg-deb', ['-f', deb, name], { encoding: 'utf8' }).trim();

  beforeAll(() => {
    deb = build('first', 'UTC', '022');
    const listed = execFileSync('dpkg-deb', ['--fsys-tarfile', deb], { maxBuffer: 1 << 28 });
    files = execFileSync('tar', ['-t'], { input: listed, encoding: 'utf8' })
      .split('\n')
      .map((file) => file.slice(1))
      .filter((file) => file !== '' && !file.endsWith('/'));
  }, 600_000);

  it('is byte-identical when it is built again', () => {
    expect(fs.readFileSync(build('second', 'Pacific/Kiritimati', '077')).equals(fs.readFileSync(deb))).toBe(true);
  }, 600_000);
  it('contains the whole bundle, and the pages where people look for them', () => {
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
        '/usr/share/man/man5/nodewarden.5.gz',
        '/usr/share/nodewarden/scenarios/memory-leak.yaml',
      ]),
    );
    expect(files.filter((file) => /\.map$|^\/usr\/lib\/nodewarden\/node$/.test(file))).toEqual([]);
  });
  it('depends on a recent Node.js, and has no conffile that dpkg could ask about', () => {
    expect(field('Depends')).toContain('nodejs (>= 20.19) | nodewarden-node');
    expect(files.filter((file) => file.startsWith('/etc/'))).toEqual([]);
  });
  it.skipIf(!has('lintian'))(
    'has no error according to lintian [needs lintian]',
    () => {
      const said = spawnSync('lintian', ['--fail-on', 'error', deb], { encoding: 'utf8' });
      expect({ status: said.status, errors: said.stdout.match(/^E: .*$/gm) }).toEqual({ status: 0, errors: null });
    },
    120_000,
  );
});
