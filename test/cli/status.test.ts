import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { painter } from '../../src/cli/print.ts';
import { hostText, statusText } from '../../src/cli/status-text.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state.ts';
import { createClock } from '../../src/host/clock.ts';
import { type OpenSocket, serveSocket } from '../../src/serve/socket.ts';
import { type StatusReport, statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext, anEviction, aVerdict, ended } from '../serve/a-report.ts';

const plain = painter(false);
const hostile = 'web\x1b[2J\nroot\u202e';

function aReport(): StatusReport {
  const thresholds = [
    aThreshold('memory.available', 100 * MI),
    aThreshold('memory.available', 200 * MI, { graceMs: 30_000 }),
  ];
  const psi = { some: { avg10: 1.5, avg60: 0, avg300: 0 }, full: { avg10: 0.2, avg60: 0, avg300: 0 } };
  const observation = anObservation(
    10_000,
    {
      'memory.available': { available: 150 * MI, capacity: GI },
      'pid.available': unknown('unreadable', '/proc/loadavg', 'EACCES'),
    },
    {
      pods: known([
        aPod({ name: hostile, namespace: 'shop', workingSetBytes: 300 * MI }),
        aPod({ name: 'db', isProtected: true }),
      ]),
      psi: { memory: known(psi), io: known(psi), cpu: unknown('absent', '/proc/pressure/cpu', 'no PSI') },
    },
  );
  const state = {
    ...initialState('b'),
    firstMetMs: { 'memory.available/evictionSoft': 2_000 },
    conditionLastMetMs: { MemoryPressure: 10_000 },
  } as const;
  const context = aContext({
    findings: [{ id: 'x', text: `pod shop/${hostile} survived` }],
    recent: [
      { atWallMs: 1_700_000_001_000, decision: anEviction('b-2', { podName: hostile }), outcome: null },
      { atWallMs: 1_700_000_000_000, decision: anEviction('b-1'), outcome: ended('b-1') },
    ],
    warnings: ['no pid.available threshold'],
  });
  const verdict = aVerdict(state, {
    reasons: [{ code: 'grace-running', threshold: 'memory.available/evictionSoft', remainingMs: 22_000 }],
  });
  return statusReport({ observation, verdict, config: aConfig(thresholds), context });
}

describe('the status as text', () => {
  it('shows a gauge for each signal, what is met, who would go and what was done', () => {
    expect(statusText(aReport(), plain)).toBe(String.raw`nodewarden 0.1.0 on node-1: mode standalone, pid 42
cgroup v2, node /; observing for 10s, at 2023-11-14 22:13:30 UTC

memory.available  [===!..~.......................] 150 MiB of 1 GiB
                  ! hard below 100 MiB
                  ~ soft below 200 MiB, grace 30s: met for 8s, 22s of its grace left
pid.available     unknown: /proc/loadavg: EACCES (unreadable)
not applicable here: allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree

conditions  MemoryPressure yes, DiskPressure no, PIDPressure no
memory      available by working set 92 MiB, by what could be freed 120 MiB; thresholds use workingSet
stalls      memory 1.5% (all: 0.2%), io 1.5% (all: 0.2%), cpu unknown
acting      no

pods in eviction order for memory.available
#  POD                                QOS        PRIORITY    USAGE  REQUEST
1  shop/web\u001b[2J\u000aroot\u202e  Burstable         0  300 MiB      0 B
2  default/db                         Burstable         0      0 B      0 B  protected

because     memory.available/evictionSoft: its grace period has 22s left

finding     pod shop/web\u001b[2J\u000aroot\u202e survived
warning     no pid.available threshold

last decisions
  2023-11-14 22:13:21 UTC  evict shop/web\u001b[2J\u000aroot\u202e: memory.available 92 MiB is below 100 MiB; under way
  2023-11-14 22:13:20 UTC  evict shop/web: memory.available 92 MiB is below 100 MiB; empty after 38ms by sigkill, gave back 290 MiB

config      /etc/nodewarden/config.yaml, loaded 2023-11-14 22:13:20 UTC
`);
  });

  it('lets nothing through that a tenant could play tricks on a terminal with', () => {
    const text = statusText(aReport(), plain);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    expect(text).toContain('web\\u001b[2J\\u000aroot\\u202e');
  });
});

describe('facts about the host', () => {
  it('name machine, CPUs and the mounted disks', () => {
    const disk = { name: 'vda', kind: 'disk', fileSystem: 'ext4', sizeBytes: 10 * GI };
    const facts = {
      hostname: 'node-1',
      distribution: 'Debian 12',
      kernel: '6.1',
      architecture: 'x64',
      machine: 'QEMU Standard PC',
      isVirtual: true,
      cpu: 'AMD EPYC',
      cpuCores: 2,
      disks: [
        { ...disk, mount: '/' },
        { ...disk, mount: '' },
      ],
    };
    expect(hostText(facts)).toBe(
      'host        node-1: Debian 12, kernel 6.1 x64\n' +
        'machine     QEMU Standard PC (virtual), 2 CPUs AMD EPYC\n' +
        'disk        vda ext4 on /, 10 GiB\n',
    );
  });
});

describe('nodewarden status', () => {
  const clock = createClock();
  let directory: string;
  let config: string;
  let socket: OpenSocket | null;
  let child: ChildProcess | null;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-status-'));
    config = join(directory, 'config.yaml');
    const text = `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nsocket: ${directory}/nw.sock\n`;
    writeFileSync(config, text, { mode: 0o644 });
    socket = null;
    child = null;
  });
  afterEach(async () => {
    child?.kill('SIGKILL');
    await socket?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  function run(...args: readonly string[]) {
    child = spawn(process.execPath, ['--import', 'tsx', 'src/main.ts', 'status', '--config', config, ...args], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    child.stdout?.on('data', (text) => {
      out += text;
    });
    child.stderr?.on('data', (text) => {
      err += text;
    });
    const ended = new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
      child?.on('close', (code) => resolve({ code, out, err }));
    });
    return { ended, out: () => out };
  }

  async function serve(answer: () => unknown): Promise<void> {
    const served = await serveSocket({
      clock,
      path: join(directory, 'nw.sock'),
      groupId: null,
      removeStale: () => known(true),
      answer,
      observe: () => new Promise(() => undefined),
    });
    if (served.known) socket = served.value;
  }

  it('says that the daemon is not running and what starts it, with status 3', async () => {
    const { code, out, err } = await run().ended;
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toBe(
      `nodewarden is not running: nobody listens on ${directory}/nw.sock; start it with: systemctl start nodewarden\n`,
    );
  });

  it('prints the report as text or, whole, as JSON', async () => {
    await serve(aReport);
    expect((await run().ended).out).toBe(statusText(aReport(), plain));
    const { code, out } = await run('-o', 'json').ended;
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual(aReport());
  });

  it('watches until it is interrupted, and then ends well', async () => {
    await serve(aReport);
    const { ended, out } = run('--watch', '-o', 'json');
    while (out().split('\n').length < 4 && child?.exitCode === null) {
      await new Promise<void>((resolve) => {
        clock.after(50, resolve);
      });
    }
    child?.kill('SIGINT');
    const { code } = await ended;
    expect(code).toBe(0);
    expect(JSON.parse(out().split('\n')[1] ?? '')).toEqual(aReport());
  });

  it('does not show what another version answers', async () => {
    await serve(() => ({ schema: 99 }));
    const { code, err } = await run().ended;
    expect(code).toBe(1);
    expect(err).toContain('the daemon is of another version');
  });
});
