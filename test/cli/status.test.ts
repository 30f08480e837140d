import { describe, expect, it } from 'vitest';
import { painter } from '../../src/cli/print.ts';
import { hostText, statusText } from '../../src/cli/status-text.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { type StatusReport, statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext, anEviction, aVerdict, ended } from '../serve/a-report.ts';
import { aCommand } from './a-command.ts';

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
        aPod({ name: 'db', isProtected: true, evictFor: ['disk', 'pids'] }),
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
    // The clock was set back by an hour since.
    node: { ...aContext().node, sinceWallMs: 1_700_003_600_000 },
    findings: [{ id: 'x', text: `pod shop/${hostile} survived` }],
    recent: [
      {
        atWallMs: 1_700_000_001_000,
        decision: anEviction('b-2', { podName: hostile }),
        outcome: null,
        stopBeganAtMs: null,
      },
      {
        atWallMs: 1_700_000_000_000,
        decision: anEviction('b-1'),
        outcome: ended('b-1'),
        stopBeganAtMs: anEviction('b-1').atMs + 2,
      },
    ],
    warnings: ['no pid.available threshold'],
  });
  const verdict = aVerdict(state, {
    reasons: [{ code: 'grace-running', threshold: 'memory.available/evictionSoft', remainingMs: 22_000 }],
  });
  return statusReport({ observation, verdict, config: aConfig(thresholds), context });
}

describe('the status as text', () => {
  it('shows a gauge for each signal, what is met, which pod is next and what was done', () => {
    expect(statusText(aReport(), plain)).toBe(String.raw`nodewarden 0.1.0 on node-1: mode standalone, pid 42
cgroup v2, node /; observing for 10s, at 2023-11-14 22:13:30 UTC

memory.available  [===!..~.......................] 150 MiB of 1 GiB
                  ! hard below 100 MiB
                  ~ soft below 200 MiB, grace 30s: met for 8s, 22s of its grace period left
pid.available     unknown: /proc/loadavg: EACCES (unreadable)
not applicable here: allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree
not configured: swap.available, memory.stallFree

conditions  MemoryPressure yes, DiskPressure no, PIDPressure no
memory      available by working set 92 MiB, by what could be freed 120 MiB; thresholds use workingSet
stalls      memory 1.5% (all: 0.2%), io 1.5% (all: 0.2%), cpu unknown
acting      no
shutdown    off

pods in eviction order for memory.available
#  POD                                QOS        PRIORITY    USAGE  REQUEST
1  shop/web\u001b[2J\u000aroot\u202e  Burstable         0  300 MiB      0 B
2  default/db                         Burstable         0      0 B      0 B  protected, evict-for disk,pids

because     memory.available/evictionSoft: its grace period has 22s left

finding     pod shop/web\u001b[2J\u000aroot\u202e survived
warning     no pid.available threshold

last decisions
  2023-11-14 22:13:21 UTC  evict shop/web\u001b[2J\u000aroot\u202e: memory.available 92 MiB is below 100 MiB; in progress
  2023-11-14 22:13:20 UTC  evict shop/web: memory.available 92 MiB is below 100 MiB; ended by sigkill after 36ms, gave back 290 MiB

config      /etc/nodewarden/config.yaml, loaded 2023-11-14 22:13:20 UTC
`);
  });

  it.each([
    [{ ok: true, text: 'the configuration /etc/c is in force' }, 'reloaded 2023-11-14 22:13:20 UTC'],
    [{ ok: false, text: 'it was not reloaded: x' }, 'refused 2023-11-14 22:13:20 UTC: it was not reloaded: x'],
  ])('says of the last reload when it was, and why it was refused: %o', (reload, said) => {
    const report = aReport();
    const config = { ...report.config, lastReload: { ...reload, atWallMs: 1_700_000_000_000 } };
    expect(statusText({ ...report, config }, plain)).toMatch(new RegExp(`^config      .*, ${said}$`, 'm'));
  });

  it('escapes everything that a tenant could use against a terminal', () => {
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
    expect(hostText({ ...facts, machine: '' })).toContain('\nmachine     of unknown make (virtual), ');
  });
});

describe('nodewarden status', () => {
  const { start, serve, until, config, notRunning, path } = aCommand();
  const run = (...args: readonly string[]) => start(['status', ...config(), ...args]);

  it('reports that the daemon is not running and what starts it, with status 3', async () => {
    expect(await run().ended).toEqual(notRunning());
  });

  it('uses no paths from an invalid configuration that was named (2)', async () => {
    const { code, err } = await start(['status', '--config', path('none.yaml')]).ended;
    expect(code).toBe(2);
    expect(err).toContain(`${path('none.yaml')}: does not exist`);
    expect(err).toContain('without it, the socket and the record of the agent are unknown');
    // A name may hold a line end.
    const odd = await start(['status', '--config', path('a\nb.yaml')]).ended;
    expect(odd.err).toContain('a\\u000ab.yaml: does not exist');
  });

  it('reports that an incomplete answer cannot be read, without a stack trace', async () => {
    await serve({ answer: () => ({ schema: 1 }), observe: async () => '{"schema":1}' });
    for (const ended of [run().ended, start(['explain', ...config()]).ended]) {
      const { code, err } = await ended;
      expect(code).toBe(1);
      expect(err).toMatch(/^cannot query nodewarden: .*\n$/);
    }
  });

  it('prints the report as text, or completely as JSON', async () => {
    await serve({ answer: aReport });
    expect((await run().ended).out).toBe(statusText(aReport(), plain));
    const { code, out } = await run('-o', 'json').ended;
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual(aReport());
  });

  it('watches until it is interrupted, and then exits cleanly', async () => {
    await serve({ answer: aReport });
    const watch = run('--watch', '-o', 'json');
    await until(() => watch.out().split('\n').length >= 4);
    watch.kill('SIGINT');
    const { code, out } = await watch.ended;
    expect(code).toBe(0);
    expect(JSON.parse(out.split('\n')[1] ?? '')).toEqual(aReport());
  });

  it('does not show what another version answers', async () => {
    await serve({ answer: () => ({ schema: 99 }) });
    const { code, err } = await run().ended;
    expect(code).toBe(1);
    expect(err).toContain('the agent runs another version');
  });
});
