import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import { machine, writeResult } from '../result.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const INSIDE = '/opt/bench';
const SECONDS = 900;

/** The same bench in a guest with systemd, a system bus and cgroup v2; its processor is emulated and far slower. */
export async function measureInGuest(options: readonly string[]): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const env = { ...process.env, LAB_VM: `footprint-${process.pid}` };
  const vm = (script: string, ...args: readonly string[]): void =>
    void execFileSync(path.join(ROOT, 'test/lab/vm', script), args, { stdio: 'inherit', env });
  const host = machine();
  try {
    await gather(directory);
    vm('start', '--mem', '2048');
    const files = fs.readdirSync(directory).map((name) => path.join(directory, name));
    vm('push', ...files, INSIDE);
    const named = `BENCH_COMMIT=${host.commit} NODEWARDEN_BUNDLE=${INSIDE}/dist/nodewarden.js`;
    // Just above a threshold its processor has no time left to measure.
    const args = [...options, '--jumps', '0', '--pods', '0', '--result', 'footprint-guest'].join(' ');
    vm('run', '-t', String(SECONDS), `${named} node ${INSIDE}/footprint.mjs ${args}`);
    vm('pull', `${INSIDE}/results/footprint-guest.json`, directory);
    const { on, ...figures } = JSON.parse(fs.readFileSync(path.join(directory, 'footprint-guest.json'), 'utf8'));
    writeResult('footprint-guest', { on, emulatedOn: host, ...figures });
  } finally {
    vm('stop', '--purge');
    fs.rmSync(directory, { recursive: true });
  }
}

/** The bench with all that it starts. */
async function gather(directory: string): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['bench/footprint.ts'],
    outfile: path.join(directory, 'footprint.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    // Are only for out here.
    external: ['./footprint/guest.ts', './kube-node.ts', './page-node.ts'],
    logLevel: 'warning',
  });
  for (const script of ['bench/reaction/hog.pl', 'test/lab/load.pl']) {
    fs.copyFileSync(path.join(ROOT, script), path.join(directory, path.basename(script)));
  }
  fs.cpSync(path.join(ROOT, 'systemd'), path.join(directory, 'systemd'), { recursive: true });
  fs.cpSync(path.join(ROOT, 'dist'), path.join(directory, 'dist'), {
    recursive: true,
    filter: (file) => !file.endsWith('.map'),
  });
}
