// `npm run bench:guest`, as root: the reaction once more in a virtual machine with cgroup v2, beside earlyoom and systemd-oomd.
// Its processor is emulated and far slower: what counts is how they compare, and who was in time.
// Options go to reaction.ts.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import { has, machine, sayMachine, writeResult } from './result.ts';

const ROOT = path.join(import.meta.dirname, '..');
const VM = path.join(ROOT, 'test/lab/vm');
const INSIDE = '/opt/bench';
const SECONDS = 3_000;
/** A node half as large: the emulated machine takes memory slowly, and never more than some 130 MiB a second. */
const DEFAULTS = [
  ['--node-mib', '512'],
  ['--runs', '10'],
  ['--few', '5'],
  ['--rates', '10,50,250'],
  ['--curve', ''],
  ['--stays', '0'],
].flat();
const NEEDED = ['qemu-system-x86_64', 'qemu-img', 'mmdebstrap', 'mkfs.ext4'];

function vm(script: string, ...args: readonly string[]): void {
  const env = { ...process.env, LAB_VM: `bench-${process.pid}` };
  execFileSync(path.join(VM, script), args, { stdio: 'inherit', env });
}

/** The program with all that it starts, as it lies in the repository. */
async function gather(directory: string): Promise<readonly string[]> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['bench/reaction.ts'],
    outfile: path.join(directory, 'bench/reaction/reaction.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  });
  for (const script of ['bench/reaction/hog.pl', 'bench/reaction/slow-loop.pl', 'test/lab/load.pl']) {
    fs.cpSync(path.join(ROOT, script), path.join(directory, script));
  }
  fs.cpSync(path.join(ROOT, 'dist'), path.join(directory, 'dist'), {
    recursive: true,
    filter: (file) => !file.endsWith('.map'),
  });
  return fs.readdirSync(directory).map((name) => path.join(directory, name));
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

async function measure(directory: string): Promise<void> {
  const host = machine();
  console.log(`on ${sayMachine(host)}:`);
  const files = await gather(directory);
  // Memory for the node, and as much again that nobody wants.
  vm('start', '--mem', '2048');
  vm('push', ...files, INSIDE);
  const env = `BENCH_COMMIT=${quoted(host.commit)} NODEWARDEN_BUNDLE=${INSIDE}/dist/nodewarden.js`;
  const args = [...DEFAULTS, ...process.argv.slice(2), '--emulated', '--result', 'guest'].map(quoted).join(' ');
  vm('run', '-t', String(SECONDS), `${env} node ${INSIDE}/bench/reaction/reaction.mjs ${args}`);
  vm('pull', `${INSIDE}/bench/reaction/results/guest.json`, directory);
  const { on, ...figures } = JSON.parse(fs.readFileSync(path.join(directory, 'guest.json'), 'utf8'));
  writeResult('guest', { on, emulatedOn: host, ...figures });
}

const missing = process.getuid?.() === 0 ? NEEDED.find((command) => !has(command)) : 'root';
if (missing !== undefined) {
  console.log(`skipped the guest: ${missing} is needed`);
} else {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  // What ends the script that is waited for would end us before the guest is stopped.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => undefined);
  try {
    await measure(directory);
  } finally {
    vm('stop', '--purge');
    fs.rmSync(directory, { recursive: true });
  }
}
