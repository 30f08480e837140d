import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

const ROOT = process.cwd();
/** Nothing can be opened any more, nor a pipe to a child made: Node then starts none, and gives the child no streams. */
const exhausted = (imports: string, call: string): string => `
  import { openSync, writeSync } from 'node:fs';
  import { createClock } from '${ROOT}/src/host/clock.ts';
  ${imports}
  const clock = createClock();
  try { for (;;) openSync('/dev/null'); } catch {}
  const said = await ${call};
  await new Promise((resolve) => clock.after(100, resolve));
  writeSync(1, JSON.stringify(said));`;

function inOwnProcess(script: string): { readonly status: number | null; readonly stdout: string } {
  const node = [process.execPath, '--import', 'tsx', '--input-type=module', '-e', script];
  return spawnSync('/bin/sh', ['-c', 'ulimit -n 128; exec "$@"', 'sh', ...node], { encoding: 'utf8' });
}

describe('a child that cannot be started for lack of descriptors ends nothing', () => {
  it.each([
    ['a command', 'exec.ts', 'run', `run(['true'], { timeoutMs: 1_000, maxOutputBytes: 10 })`],
    ['the lock child', 'systemd/inhibit-child.ts', 'takeInhibitLock', `takeInhibitLock(clock)`],
    ['a disk walk', 'disk/disk-walk.ts', 'createDiskWalker', `createDiskWalker(clock).walk(['/'])`],
    [
      'a workload',
      'process/workload.ts',
      'startWorkload',
      `startWorkload({ argv: ['true'], join: [], monoMs: clock.monoMs, line: () => undefined })`,
    ],
    [
      'a message to systemd',
      'systemd/notify.ts',
      'openNotify',
      `new Promise((resolve) => openNotify({ PATH: '/bin', NOTIFY_SOCKET: '/none' }, clock, resolve).status('x'))`,
    ],
  ])('%s', (_, file, name, call) => {
    const imports = `import { ${name} } from '${ROOT}/src/host/${file}';`;
    const { status, stdout } = inOwnProcess(exhausted(imports, call));
    expect([status, stdout]).toEqual([0, expect.stringMatching(/EMFILE|could not be started/)]);
  });
});
