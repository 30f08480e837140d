import { mkdirSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { painter } from '../../src/cli/print.ts';
import { type RehearseInput, rehearseReport } from '../../src/cli/rehearse-report.ts';
import { type PhaseForm, rehearseText } from '../../src/cli/rehearse-text.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { PodView } from '../../src/core/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state.ts';
import { entryOf, sayEntry } from '../../src/record/entry.ts';
import type { ObservedLook } from '../../src/serve/look-desk.ts';
import { NO_SHUTDOWN } from '../../src/serve/shutdown-status.ts';
import { statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation, aPod } from '../a.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { aContext, aVerdict } from '../serve/a-report.ts';
import { aCommand } from './a-command.ts';

const CRITICAL = 2_000_000_000;
const phases = [
  { fromPriority: 0, graceSeconds: 20 },
  { fromPriority: CRITICAL, graceSeconds: 10 },
];
const config = aConfig([], { phases });
const web = aPod({ name: 'web', namespace: 'shop' });
const ARMED = { kind: 'armed', neededMs: 30_000, grantedMs: 35_000, provenAgoMs: 0 } as const;
const NEVER = { stops: 1, endedMs: null };
const ended = (endedMs: number) => ({ stops: 1, endedMs, unfinishedMs: null });

type Given = Partial<Pick<RehearseInput, 'config' | 'pods'>> & {
  /** By the pod's name. */
  readonly observed?: {
    readonly [name: string]: { stops: number; endedMs: number | null; unfinishedMs: number | null };
  };
  /** By the pod's name; systemd's default is 90 s. */
  readonly timeouts?: { readonly [name: string]: number };
  readonly status?: Partial<RehearseInput['status']>;
  readonly findings?: RehearseInput['findings'];
};

function rehearsed({ pods = [web], observed = {}, timeouts = {}, status, ...rest }: Given) {
  return rehearseReport({
    node: { name: 'node-1', dryRun: false },
    atWallMs: 1_700_000_000_000,
    config,
    pods,
    findings: [],
    status: { lock: ARMED, stopTimeoutMs: 90_000, secondTier: true, running: null, ...status },
    observed: new Map(Object.entries(observed).map(([name, stops]) => [`uid-${name}`, stops])),
    timeouts: {
      units: new Map(
        Object.entries(timeouts).map(([name, ms]) => [
          `uid-${name}`,
          { unit: `${name}.service`, timeoutMs: known(ms) },
        ]),
      ),
      defaultMs: known(90_000),
      problems: [],
    },
    ...rest,
  });
}

/** What becomes of shop/web, which declares `ownSeconds`, in its phase of 20 s. */
function verdict(ownSeconds: number, given: Pick<Given, 'observed' | 'timeouts'> = {}) {
  const report = rehearsed({ ...given, pods: [{ ...web, terminationGraceSeconds: ownSeconds }] });
  const [row] = report.phases[0]?.pods ?? [];
  return { ...row?.verdict, sets: report.changes.map(({ what, seconds }) => `${what} ${seconds}`) };
}

describe('who cannot finish', () => {
  it('is one who declares more than its phase has, as long as nothing better is known', () => {
    expect(verdict(20)).toMatchObject({ kind: 'finishes', because: 'declared', sets: [] });
    expect(verdict(30)).toEqual({
      kind: 'cannot-finish',
      because: 'declared',
      needsMs: 30_000,
      sets: ['phase 30'],
    });
  });

  it('is one whose unit has a TimeoutStopSec of its own that is longer, which counts more than the declared grace', () => {
    expect(verdict(20, { timeouts: { web: 45_000 } })).toEqual({
      kind: 'cannot-finish',
      because: 'stop-timeout',
      needsMs: 45_000,
      sets: ['phase 45', 'terminationGracePeriodSeconds 45'],
    });
    expect(verdict(30, { timeouts: { web: 12_000 } })).toMatchObject({ kind: 'finishes', because: 'stop-timeout' });
    const endless = verdict(20, { timeouts: { web: Number.POSITIVE_INFINITY } });
    expect(endless).toMatchObject({ kind: 'cannot-finish', because: 'stop-timeout', needsMs: null, sets: [] });
  });

  it("is not told from systemd's default, which nobody chose", () => {
    expect(verdict(20, { timeouts: { web: 90_000 } })).toMatchObject({ kind: 'finishes', because: 'declared' });
  });

  it('is told from how long it took before, whatever is declared', () => {
    expect(verdict(300, { observed: { web: ended(2_500) } })).toMatchObject({ kind: 'finishes', because: 'observed' });
    expect(verdict(300, { observed: { web: ended(24_000) } })).toMatchObject({ needsMs: 24_000, sets: ['phase 30'] });
    expect(verdict(10, { observed: { web: ended(16_000) } })).toEqual({
      kind: 'cannot-finish',
      because: 'observed',
      needsMs: 16_000,
      // A quarter more than was seen, which its phase has.
      sets: ['terminationGracePeriodSeconds 20'],
    });
  });

  it('is one that had to be killed after as much time as it gets now', () => {
    const observed = { web: { ...NEVER, unfinishedMs: 20_000 } };
    expect(verdict(20, { observed })).toEqual({
      kind: 'cannot-finish',
      because: 'observed',
      needsMs: null,
      sets: ['phase 40', 'terminationGracePeriodSeconds 40'],
    });
    // It had less then: what it declares is all that is known.
    expect(verdict(20, { observed: { web: { ...NEVER, unfinishedMs: 3_000 } } })).toMatchObject({
      kind: 'finishes',
      because: 'declared',
    });
    const once = { stops: 2, endedMs: 1_000, unfinishedMs: 3_000 };
    expect(verdict(30, { observed: { web: once } })).toMatchObject({ kind: 'cannot-finish', because: 'declared' });
  });

  it('is one that systemd killed, although its stop ended within the grace', () => {
    expect(verdict(20, { timeouts: { web: 5_000 }, observed: { web: ended(5_010) } })).toEqual({
      kind: 'cannot-finish',
      because: 'observed',
      needsMs: null,
      sets: ['TimeoutStopSec 10'],
    });
  });
});

describe('the rehearsal', () => {
  const dns = aPod({ name: 'dns', priority: CRITICAL, terminationGraceSeconds: 10 });

  it('gives times at worst, and as it went before where that is known', () => {
    const report = rehearsed({ pods: [web, dns], observed: { web: ended(2_500) } });
    expect(report.phases.map(({ worst, expected }) => [worst, expected])).toEqual([
      [
        { startMs: 0, endMs: 20_000 },
        { startMs: 0, endMs: 2_500 },
      ],
      [
        { startMs: 20_000, endMs: 30_000 },
        { startMs: 2_500, endMs: 12_500 },
      ],
    ]);
    expect([report.worstMs, report.expectedMs]).toEqual([30_000, 12_500]);
    // One that had to be killed once may have to be again.
    const once = { stops: 2, endedMs: 1_000, unfinishedMs: 3_000 };
    expect(rehearsed({ observed: { web: once } }).expectedMs).toBe(20_000);
  });

  it('waits no longer for a unit than systemd does', () => {
    const report = rehearsed({ timeouts: { web: 8_000 } });
    expect(report.worstMs).toBe(8_000);
    expect(report.phases[0]?.pods[0]?.getsMs).toBe(8_000);
    expect(report.warnings).toEqual([
      'systemd kills web.service after its TimeoutStopSec of 8s, before the 20s that shop/web is given',
    ]);
  });

  it('shrinks the phases into what logind grants, and says so', () => {
    const lock = { kind: 'not-armed', neededMs: 30_000, grantedMs: 17_000, isHeld: true, why: '/etc/x' } as const;
    const report = rehearsed({ pods: [web, dns], status: { lock } });
    expect(report.phases.map(({ pods }) => pods[0]?.graceSeconds)).toEqual([10, 5]);
    expect([report.grantedMs, report.worstMs]).toEqual([17_000, 15_000]);
    expect(report.cannotFinish).toEqual(['shop/web', 'default/dns']);
    expect(report.warnings[0]).toMatch(/^logind grants 17s of the 30s of all phases: they shrink into it/);
  });

  it('warns that nobody would wait for the phases while the lock is not held', () => {
    const lock = { kind: 'not-armed', neededMs: 30_000, grantedMs: null, isHeld: false, why: 'no bus' } as const;
    expect(rehearsed({ pods: [web], status: { lock } }).warnings).toEqual([
      'the lock is not held now: a shutdown would not wait for the phases (no bus)',
    ]);
  });

  it('warns first of all of a shutdown that is under way', () => {
    const running = {
      tier: 'logind',
      type: null,
      phase: 1,
      phaseLeftMs: 5_000,
      podsLeft: [],
      cancelled: false,
      cancelIgnored: false,
    } as const;
    expect(rehearsed({ timeouts: { web: 8_000 }, status: { running } }).warnings).toEqual([
      'a shutdown is under way: nodewarden status shows it',
      expect.stringContaining('systemd kills web.service'),
    ]);
  });

  it('plays the phases in what systemd leaves the stop of the agent, too', () => {
    const tier = (stopTimeoutMs: number | 'infinity' | null, secondTier = true) =>
      rehearsed({ pods: [web, dns], status: { stopTimeoutMs, secondTier } }).secondTier;
    expect(tier(90_000)).toEqual({ stopTimeoutMs: 90_000, leftMs: 85_000, worstMs: 30_000 });
    expect(tier(20_000)).toEqual({ stopTimeoutMs: 20_000, leftMs: 15_000, worstMs: 15_000 });
    expect(tier('infinity')).toEqual({ stopTimeoutMs: 'infinity', leftMs: null, worstMs: 30_000 });
    expect(tier(null)).toBeNull();
    expect(tier(90_000, false)).toBeNull();
  });

  it('warns of phases that last no time, and of pods below the first', () => {
    const odd = aConfig([], {
      phases: [
        { fromPriority: 1_000, graceSeconds: 30 },
        { fromPriority: CRITICAL, graceSeconds: 0 },
      ],
    });
    expect(rehearsed({ pods: [dns], config: odd }).warnings).toHaveLength(1);
    expect(rehearsed({ pods: [{ ...web, priority: 1_000 }], config: odd }).warnings).toEqual([]);
    expect(rehearsed({ pods: [web, dns], config: odd }).warnings).toEqual([
      'phase 2 lasts 0s: nobody waits for its 1 pod',
      'no phase begins at the priority of shop/web: the first one has them, although it begins at 1000',
    ]);
  });

  it('says of which unit systemd did not tell the time, and what else is missing', () => {
    const timeoutMs = unknown('absent', 'web.service', 'systemd knows no such unit');
    const units = new Map([['uid-web', { unit: 'web.service', timeoutMs }]]);
    const timeouts = { units, defaultMs: timeoutMs, problems: ['x.yaml:1:1: bad'] };
    const base = {
      node: { name: 'n', dryRun: false },
      atWallMs: 0,
      config,
      pods: [web],
      observed: new Map(),
      findings: [],
    };
    const status = { lock: ARMED, stopTimeoutMs: null, secondTier: false, running: null };
    expect(rehearseReport({ ...base, status, timeouts }).warnings).toEqual([
      'TimeoutStopSec of web.service is not known: systemd knows no such unit',
      'x.yaml:1:1: bad',
      "nothing is stopped in phases when the machine goes down without logind's signal",
    ]);
  });
});

describe('a pod that is not bound', () => {
  it('is named with the reason, and not asked for the time of its unit', () => {
    const text = '/etc/nodewarden/pods.d/ghost.yaml:1:1: cannot be resolved: ghost.service: systemd knows no such unit';
    const other = { id: 'record', text: 'the record takes no entries' };
    const findings = [{ id: 'binding/shop/ghost', text }, other];
    const timeoutMs = unknown('absent', 'ghost.service', 'systemd knows no such unit');
    const units = new Map([['uid-ghost', { unit: 'ghost.service', timeoutMs }]]);
    const base = { node: { name: 'n', dryRun: false }, atWallMs: 0, config, pods: [web], observed: new Map() };
    const status = { lock: ARMED, stopTimeoutMs: null, secondTier: true, running: null };
    const timeouts = { units, defaultMs: known(90_000), problems: [] };
    expect(rehearseReport({ ...base, status, timeouts, findings }).warnings).toEqual([
      `is not stopped in order: ${text}`,
    ]);
  });
});

describe('the rehearsal as text', () => {
  const job = aPod({ name: 'job', namespace: 'shop', terminationGraceSeconds: 5 });
  const dns = aPod({ name: 'dns', priority: CRITICAL });
  const text = (given: Given, form: PhaseForm = 'durations') => rehearseText(rehearsed(given), form, painter(false));

  it('shows each phase with its pods, who cannot finish, what to set, and all times', () => {
    const given = {
      pods: [web, job, dns],
      observed: { web: { ...ended(2_500), stops: 3 }, job: { ...NEVER, unfinishedMs: 5_000 } },
      timeouts: { web: 90_000 },
    };
    expect(text(given)).toBe(`node-1, 2023-11-14 22:13:20 UTC: a shutdown of the pods that run now; nothing is changed
lock        armed: the phases need 30s, logind grants 35s, proven just now

phase 1     priorities below 2000000000: 20s, from 0s to 20s at most, as it went before until 5s
POD       PRIORITY  GETS  DECLARES  TIMEOUTSTOPSEC  BEFORE
shop/web         0   20s       30s           1m30s  2.5s in 3 stops            finishes, as before
shop/job         0    5s        5s               -  not ended in 5s, one stop  cannot finish: had not ended after 5s, gets 5s

phase 2     priority 2000000000 and above: 10s, from 20s to 30s at most, as it went before until 15s
POD            PRIORITY  GETS  DECLARES  TIMEOUTSTOPSEC  BEFORE
default/dns  2000000000   10s       30s               -  -       cannot finish: may take 30s, gets 10s

in all      30s at most, 15s if all stop as they did before
no signal   without logind's signal systemd gives the stop of the agent 1m30s, 1m25s of it for the phases: enough
to set      shutdownGracePeriod: 50s (now 30s)
            shutdownGracePeriodCriticalPods: 30s (now 10s)
            terminationGracePeriodSeconds: 10 in the manifest of shop/job (now 5)

2 of 3 pods cannot finish in the time they get: shop/job, default/dns
`);
  });

  it('names what to set in the form in which the phases are configured', () => {
    expect(text({ pods: [web] })).toContain(
      'to set      shutdownGracePeriod: 40s (now 30s); shutdownGracePeriodCriticalPods stays 10s\n',
    );
    expect(text({ pods: [web] }, 'list')).toContain(
      'to set      shutdownGracePeriodByPodPriority: {priority: 0, shutdownGracePeriodSeconds: 30} (now 20)\n',
    );
    expect(text({ timeouts: { web: 5_000 }, observed: { web: ended(5_001) } })).toContain(
      'to set      TimeoutStopSec=10 in web.service, the unit of shop/web (now 5)\n',
    );
  });

  it('proposes a stop timeout of the agent that the phases fit into without logind, as they are to be set', () => {
    const status = { stopTimeoutMs: 20_000 };
    const own = { ...job, terminationGraceSeconds: 20 };
    expect(text({ pods: [own, { ...dns, terminationGraceSeconds: 10 }], status })).toContain(
      'to set      TimeoutStopSec=35s of nodewarden.service (now 20s): systemctl edit nodewarden\n',
    );
    expect(text({ pods: [web], status }).match(/TimeoutStopSec=.*/g)).toEqual([
      'TimeoutStopSec=45s of nodewarden.service (now 20s): systemctl edit nodewarden',
    ]);
    // All that it needs fits into what is left.
    expect(text({ pods: [{ ...job, terminationGraceSeconds: 5 }], status })).not.toContain('TimeoutStopSec=');
  });

  it('says what nobody needs to fear', () => {
    expect(text({ pods: [job] })).toMatch(/\n\nnobody is known to need more time than it gets, of 1 pod\n$/);
    expect(text({ pods: [] })).toContain(
      'phase 1     priorities below 2000000000: 20s; no pods, so it takes no time\n',
    );
    expect(text({ pods: [] })).toMatch(/\n\nno pod runs now: nobody would be stopped\n$/);
    expect(text({ config: aConfig([]) })).toMatch(/\nlock {8}off: no grace period is configured/);
  });

  it('lets nothing through that a tenant could play tricks on a terminal with', () => {
    const hostile = aPod({ name: 'web\x1b[2J\nroot\u202e', namespace: 'shop' });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(text({ pods: [hostile] })).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });
});

describe('nodewarden rehearse shutdown', () => {
  const command = aCommand();
  const run = (...args: readonly string[]) => command.run(['rehearse', 'shutdown', ...command.config(), ...args]);
  let fake: FakeSystemd | null = null;
  afterEach(async () => {
    delete process.env['DBUS_SYSTEM_BUS_ADDRESS'];
    await fake?.remove();
    fake = null;
  });

  async function serve(pods: readonly PodView[]): Promise<void> {
    const observation = anObservation(10_000, {}, { pods: known(pods) });
    const inhibitor = { ...NO_SHUTDOWN.inhibitor, lock: { ...ARMED, provenMs: 10_000 } };
    const context = aContext({ shutdown: { ...NO_SHUTDOWN, inhibitor, stopTimeoutMs: 90_000, secondTier: true } });
    const state = initialState('boot');
    const look: ObservedLook = {
      schema: 1,
      node: context.node,
      observation,
      config,
      state,
      decisions: [],
      reasons: [],
    };
    await command.serve({
      answer: () => statusReport({ observation, verdict: aVerdict(state), config, context }),
      observe: async () => JSON.stringify(look),
    });
  }

  it('says that the daemon is not running, with status 3, and what it takes, with status 2', async () => {
    expect(await run()).toEqual(command.notRunning());
    expect((await run('--now')).code).toBe(2);
  });

  it('ends with 3, not with 1, when the daemon cannot be asked, and says why', async () => {
    await command.serve({ answer: () => ({ schema: 0 }) });
    const { code, out, err } = await run();
    expect([code, out]).toEqual([3, '']);
    expect(err).toBe('nodewarden cannot be asked: the daemon is of another version; restart it\n');
  });

  it('ends with 1 when somebody cannot finish, and with 0 when nobody is known to', async () => {
    await serve([web]);
    const { code, out } = await run('-o', 'json');
    expect([code, JSON.parse(out).cannotFinish]).toEqual([1, ['shop/web']]);
    await command.away();
    await serve([{ ...web, terminationGraceSeconds: 20 }]);
    const well = await run();
    expect([well.code, well.err]).toEqual([0, '']);
    expect(well.out).toMatch(/nobody is known to need more time than it gets, of 1 pod\n$/);
  });

  it.skipIf(!hasDbusDaemon)(
    'takes the units of the manifests, what systemd gives them, and earlier stops from the record [needs dbus-daemon]',
    async () => {
      fake = await openFakeSystemd();
      process.env['DBUS_SYSTEM_BUS_ADDRESS'] = fake.daemon.address;
      const unit = { activeState: 'active', invocation: 1, controlGroup: '/x', loadState: 'loaded' };
      fake.units.set('web.service', { ...unit, stopUs: 25_000_000n });
      for (const name of ['pods.d', 'state']) mkdirSync(command.path(name), { mode: 0o755 });
      const more = `podManifests: ${command.path('pods.d')}\nstateDirectory: ${command.path('state')}\n`;
      writeFileSync(command.path('config.yaml'), more, { flag: 'a' });
      const manifest = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          name: 'web',
          namespace: 'shop',
          uid: web.uid,
          annotations: { 'nodewarden.dev/systemd-unit': 'web.service' },
        },
        spec: { containers: [{ name: 'main' }] },
      };
      writeFileSync(command.path('pods.d/web.json'), JSON.stringify(manifest), { mode: 0o644 });
      const { uid, namespace, name, qos, priority } = web;
      const victim = { uid, namespace, name, qos, priority };
      const decision: Decision = {
        id: 'b-1',
        atMs: 1_000,
        kind: 'stop-for-shutdown',
        victim,
        phase: 1,
        graceSeconds: 20,
      };
      const head = { atWallMs: 1_700_000_000_000, bootId: 'boot', dry: false };
      const outcome = { of: 'b-1', atMs: 4_000, kind: 'ended', via: 'stop-unit', releasedBytes: known(0) } as const;
      const entries = [
        entryOf(head, { kind: 'decision', decision, reasons: [] }),
        entryOf(head, { kind: 'outcome', outcome }),
      ];
      writeFileSync(command.path('state/record.jsonl'), entries.map(sayEntry).join(''));
      await serve([web]);
      const { code, out, err } = await run('-o', 'json');
      expect([code, err]).toEqual([0, '']);
      expect(JSON.parse(out).phases[0].pods).toEqual([
        {
          uid: 'uid-web',
          namespace: 'shop',
          name: 'web',
          priority: 0,
          graceSeconds: 20,
          ownGraceSeconds: 30,
          unit: 'web.service',
          stopTimeoutMs: 25_000,
          observed: { stops: 1, endedMs: 3_000, unfinishedMs: null },
          getsMs: 20_000,
          verdict: { kind: 'finishes', because: 'observed' },
        },
      ]);
      expect(fake.asked()).toEqual([]);
    },
  );
});
