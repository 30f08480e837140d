import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { counterfactuals, type ExplainedLook, explain, signalOf, thresholdsOf } from '../../src/core/explain.ts';
import type { Observation } from '../../src/core/observation.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const absent = unknown('absent', 'stats', 'not there');
const requesting = (memoryBytes: number) => ({ memoryBytes, ephemeralStorageBytes: 0 });
const web = aPod({ name: 'web', workingSetBytes: 500 * MI, requests: requesting(200 * MI) });
const job = aPod({ name: 'job', workingSetBytes: 300 * MI, requests: requesting(100 * MI) });
const db = aPod({ name: 'db', priority: 1000, workingSetBytes: 900 * MI, requests: requesting(GI) });
const dns = aPod({ name: 'dns', priority: 2_000_000_000, isStaticCritical: true, workingSetBytes: 50 * MI });
const hard = aThreshold('memory.available', 100 * MI);
const short = { 'memory.available': { available: 50 * MI, capacity: 4 * GI } };

/** A look as the core decides it, with the pods at hand. */
function aLook(
  pods: readonly PodView[],
  rest: {
    readonly signals?: Parameters<typeof anObservation>[1];
    readonly state?: Partial<State>;
    readonly config?: ReturnType<typeof aConfig>;
    readonly observation?: Partial<Observation>;
  } = {},
): ExplainedLook {
  const observation = anObservation(10_000, rest.signals ?? short, { pods: known(pods), ...rest.observation });
  const state = { ...initialState('b'), ...rest.state };
  const config = rest.config ?? aConfig([hard]);
  const { decisions, reasons } = decide(state, observation, config);
  return { observation, config, state, decisions, reasons };
}
const order = (look: ExplainedLook, signal = 'memory.available' as const) =>
  explain(look, signal)?.pods.map(({ pod, candidate }) => [
    pod.name,
    candidate.kind === 'passed-over' ? candidate.because : candidate.kind,
  ]);

describe('the signal that a look is about', () => {
  it('is the one acted on, else one that is waited for, else the first that is met, else none', () => {
    expect(signalOf(aLook([web]))).toBe('memory.available');
    expect(signalOf(aLook([]))).toBe('memory.available');
    const soft = aThreshold('nodefs.available', 10 * GI, { graceMs: 60_000 });
    const signals = { 'nodefs.available': { available: GI, capacity: 100 * GI } };
    expect(signalOf(aLook([web], { signals, config: aConfig([soft]) }))).toBe('nodefs.available');
    expect(signalOf(aLook([web], { signals: {} }))).toBeNull();
    const first = aLook([web, job]);
    const { state } = decide(first.state, first.observation, first.config);
    expect(signalOf(aLook([web], { signals: {}, state }))).toBe('memory.available');
  });

  const disk = aThreshold('nodefs.available', 10 * GI);
  const softDisk = aThreshold('nodefs.available', 10 * GI, { graceMs: 60_000 });
  const full = { 'nodefs.available': { available: GI, capacity: 100 * GI } };
  // For memory it is none that may go.
  const writer = aPod({ name: 'writer', isDaemonSet: true, diskBytes: 50 * GI });

  it('is the one acted on although another, for which nobody may go, comes before it', () => {
    const config = { ...aConfig([hard, disk]), isLive: true } as const;
    const both = { ...short, ...full };
    expect(signalOf(aLook([dns, writer], { signals: both, config }))).toBe('nodefs.available');
    const reclaiming = { ...config, reclaimSignals: ['nodefs.available'] } as const;
    expect(signalOf(aLook([dns, writer], { signals: both, config: reclaiming }))).toBe('nodefs.available');
    // Hastened: chosen by a soft threshold before.
    const soft = { ...config, thresholds: [hard, softDisk, disk], maxPodGraceSeconds: 30 };
    const state: Partial<State> = { firstMetMs: { [softDisk.id]: -60_000 }, lastLookMs: 9_900 };
    const chosen = aLook([dns, writer], { signals: full, config: { ...soft, thresholds: [softDisk] }, state });
    const after = decide(chosen.state, chosen.observation, chosen.config).state;
    const later = { ...short, 'nodefs.available': known({ ...full['nodefs.available'], sampledAtMs: 11_000 }) };
    const hastened = aLook([dns, writer], { signals: later, config: soft, state: after });
    expect(hastened.decisions.map(({ kind }) => kind)).toContain('hasten');
    expect(signalOf(hastened)).toBe('nodefs.available');
  });

  it('is one for which nobody may go rather than one whose victim is waited for', () => {
    const config = { ...aConfig([hard, disk]), isLive: true } as const;
    const first = aLook([dns, writer], { signals: full, config });
    const { state } = decide(first.state, first.observation, config);
    expect(signalOf(aLook([dns, writer], { signals: { ...short, ...full }, config, state }))).toBe('memory.available');
  });

  it('is that of a reclaim or a victim that is waited for rather than one whose grace runs', () => {
    const soft = aThreshold('memory.available', 100 * MI, { graceMs: 60_000 });
    const config = aConfig([soft, disk], { reclaimSignals: ['nodefs.available'] });
    const first = aLook([writer], { signals: full, config });
    const { state } = decide(first.state, first.observation, config);
    expect(state.reclaims).toHaveLength(1);
    expect(signalOf(aLook([writer], { signals: short, config, state }))).toBe('nodefs.available');
    // One that is over a limit of its own waits for no signal.
    const over = { ...writer, name: 'over', uid: 'uid-over', ephemeralStorageLimit: quantityOfBytes(GI, 'binary') };
    const limited = aLook([over], { signals: {}, config: aConfig([soft]) });
    const ending = decide(limited.state, limited.observation, limited.config).state;
    expect(signalOf(aLook([over], { signals: short, config: aConfig([soft]), state: ending }))).toBe(
      'memory.available',
    );
    expect(signalOf(aLook([over], { signals: {}, config: aConfig([soft]), state: ending }))).toBeNull();
  });

  it('is one of which a reclaim has freed enough', () => {
    const look = aLook([web], { signals: {} });
    expect(signalOf({ ...look, reasons: [{ code: 'reclaim-sufficed', signal: 'imagefs.available' }] })).toBe(
      'imagefs.available',
    );
  });

  it('is the one that is ripe rather than one whose grace runs', () => {
    const soft = aThreshold('memory.available', 100 * MI, { graceMs: 60_000 });
    const look = aLook([], { signals: { ...short, ...full }, config: aConfig([soft, disk]) });
    expect(signalOf({ ...look, decisions: [], reasons: [] })).toBe('nodefs.available');
    const grace = aLook([], { signals: { ...short, ...full }, config: aConfig([softDisk, soft]) });
    expect(signalOf(grace)).toBe('memory.available');
  });
});

describe('the thresholds that count', () => {
  it('are those configured at the first look, and the copies for containerfs as well from the second on', () => {
    const config = aConfig([aThreshold('nodefs.available', GI)]);
    const signals = (state: Partial<State>) =>
      thresholdsOf(aLook([web], { signals: {}, config, state })).map(({ signal }) => signal);
    expect(signals({ lastLookMs: null })).toEqual(['nodefs.available']);
    expect(signals({ lastLookMs: 9_000 })).toEqual(['nodefs.available', 'containerfs.available']);
  });
});

describe('the ranking explained', () => {
  it('names the comparators in their order, and what comes first in each', () => {
    expect(explain(aLook([web]), 'memory.available')).toMatchObject({
      signal: 'memory.available',
      comparators: [
        { by: 'over-request', first: 'true' },
        { by: 'priority', first: 'lowest' },
        { by: 'usage-over-request', first: 'highest' },
        { by: 'younger', first: 'highest' },
        { by: 'name', first: 'lowest' },
        { by: 'uid', first: 'lowest' },
      ],
    });
  });

  it('shows what the signal counts: memory, processes, or what lies on the file system', () => {
    const pod = aPod({ name: 'a', workingSetBytes: 3, processes: 5, diskBytes: 7 });
    const usage = (signal: Signal, of = pod) => explain(aLook([of]), signal)?.pods[0]?.usage;
    expect(usage('memory.available')).toEqual(known(3));
    expect(usage('pid.available')).toEqual(known(5));
    expect(usage('nodefs.available')).toEqual(known(7));
    expect(usage('nodefs.available', { ...pod, usage: { ...pod.usage, disk: absent } })).toEqual(absent);
    // Without statistics there are no numbers.
    expect(usage('pid.available', { ...pod, usage: { ...pod.usage, containers: absent } })).toEqual(absent);
  });

  it('counts what the end of a pod gives back by what the signal lacks (D14)', () => {
    const none = { bytes: known(0), inodes: known(0) };
    const relief = { scratch: none, deletedOpen: { ...none, bytes: known(MI) }, grownLastMinute: none };
    const diskRelief = known({ ...relief, writtenBytes: known(0) });
    const little = aPod({ name: 'little', diskBytes: 9 * GI, diskRelief });
    const look = (available: number) =>
      aLook([little], {
        signals: { 'nodefs.available': { available, capacity: 100 * GI } },
        config: aConfig([aThreshold('nodefs.available', 10 * GI)]),
      });
    const chosen = (available: number) => explain(look(available), 'nodefs.available')?.victim?.name ?? null;
    expect([10 * GI - 100 * MI, 10 * GI - 101 * MI, 50 * GI].map(chosen)).toEqual(['little', null, 'little']);
    // Whatever others lack that come before it.
    const { config, observation, ...rest } = look(10 * GI - 101 * MI);
    const signals = {
      ...observation.signals,
      'memory.available': known({ ...short['memory.available'], sampledAtMs: 1 }),
    };
    const both = {
      ...rest,
      config: { ...config, thresholds: [hard, ...config.thresholds] },
      observation: { ...observation, signals },
    };
    expect(explain(both, 'nodefs.available')?.victim).toBeNull();
  });

  it('says of every pod whether it goes, comes later or is passed over, and why', () => {
    const stopping = aPod({ name: 'stopping', isTerminating: true, workingSetBytes: 2 * GI });
    const kept = aPod({ name: 'kept', isProtected: true, workingSetBytes: GI });
    const agent = aPod({ name: 'agent', isDaemonSet: true, workingSetBytes: MI, requests: requesting(GI) });
    expect(order(aLook([db, dns, job, agent, kept, web, stopping]))).toEqual([
      ['stopping', 'terminating'],
      ['kept', 'protected'],
      ['web', 'victim'],
      ['job', 'candidate'],
      ['dns', 'static-critical'],
      ['agent', 'daemonset-within-request'],
      ['db', 'candidate'],
    ]);
  });

  it('agrees with the decision of the look, also while another eviction is under way', () => {
    const first = aLook([web, job]);
    const decided = first.decisions.find(({ kind }) => kind === 'evict');
    expect(decided).toMatchObject({ victim: { name: explain(first, 'memory.available')?.victim?.name } });
    const { state } = decide(first.state, first.observation, first.config);
    expect(order(aLook([web, job], { state }))).toEqual([
      ['web', 'terminating'],
      ['job', 'victim'],
    ]);
    const ended = { of: decided?.id ?? '', atMs: 9_000, kind: 'dropped', because: 'gone' } as const;
    expect(order(aLook([web, job], { state, observation: { outcomes: [ended] } }))?.[0]).toEqual(['web', 'victim']);
    // Another's end is not its own, and to have been sent a signal is no end.
    const signalled = { of: decided?.id ?? '', atMs: 9_000, kind: 'signalled', with: 'sigkill' } as const;
    for (const heard of [{ ...ended, of: 'another' }, signalled]) {
      const [first] = order(aLook([web, job], { state, observation: { outcomes: [heard] } })) ?? [];
      expect(first).toEqual(['web', 'terminating']);
    }
  });

  it('names the guard where an owner lost too many (D6)', () => {
    const ownerKills = Array.from({ length: 3 }, (_, i) => ({ ownerKey: 'rs', atMs: 9_000 + i }));
    const config = aConfig([hard], { guard: { kills: 3, windowMs: 600_000 } });
    const look = aLook([{ ...web, ownerKey: 'rs' }, job], { state: { ownerKills }, config });
    expect(order(look)).toEqual([
      ['web', 'guard'],
      ['job', 'victim'],
    ]);
  });

  it('has nobody to choose where everybody is critical, and nothing at all where the pods are not known', () => {
    expect(explain(aLook([dns]), 'memory.available')?.victim).toBeNull();
    expect(order(aLook([dns]))).toEqual([['dns', 'static-critical']]);
    const look = aLook([], { observation: { pods: unknown('timed-out', 'x', 'y') } });
    expect(explain(look, 'memory.available')).toBeNull();
    expect(counterfactuals(look, 'memory.available', 'uid-web')).toBeNull();
  });

  it('shows a number that was not measured as unknown, although it counts as 0', () => {
    const look = aLook([{ ...web, usage: { ...web.usage, workingSetBytes: absent } }]);
    const [row] = explain(look, 'memory.available')?.pods ?? [];
    expect(row?.usage).toEqual(absent);
    expect(row?.row.values[0]).toEqual({ by: 'over-request', value: known(false) });
  });
});

describe('what would have to change', () => {
  const ask = (pod: PodView, pods: readonly PodView[] = [web, job, db, dns]) =>
    counterfactuals(aLook(pods), 'memory.available', pod.uid);

  it('tells the victim by how much less, by which priority and by which request it would be safe', () => {
    expect(ask(web)).toEqual({
      uid: 'uid-web',
      isVictim: true,
      other: 'uid-job',
      changes: [
        // Equals go by name: at 200 MiB above its request `job` comes before `web`.
        { what: 'usage', now: 500 * MI, bound: 'at-most', value: 400 * MI },
        { what: 'priority', now: 0, bound: 'at-least', value: 1 },
        { what: 'request', now: 200 * MI, bound: 'at-least', value: 300 * MI },
        { what: 'protection', now: false },
      ],
      usageObstacle: null,
    });
  });

  it('tells a safe pod when it would go first', () => {
    expect(ask(job)?.changes).toEqual([
      { what: 'usage', now: 300 * MI, bound: 'at-least', value: 400 * MI },
      { what: 'priority', now: 0, bound: 'at-most', value: -1 },
      { what: 'request', now: 100 * MI, bound: 'at-most', value: 0 },
    ]);
  });

  it('lets no age count where one of three equals names none', () => {
    const at = (name: string, startedAtWallMs: number | null, used: number) =>
      aPod({ name, startedAtWallMs, workingSetBytes: used });
    const pods = [at('a', 1, 10), at('b', 9, 20), at('c', null, 20)];
    expect(ask(at('a', 1, 10), pods)?.changes[0]).toEqual({ what: 'usage', now: 10, bound: 'at-least', value: 20 });
  });

  it('names the comparator that no usage gets past', () => {
    expect(ask(db)).toMatchObject({
      changes: [],
      usageObstacle: { kind: 'decided', by: 'priority', against: 'uid-web' },
    });
    expect(ask(dns)).toMatchObject({ usageObstacle: { kind: 'passed-over', because: 'static-critical' } });
  });

  it('says so when nobody else could be chosen', () => {
    expect(ask(web, [web, dns])).toMatchObject({ other: null, changes: [], usageObstacle: { kind: 'only-candidate' } });
  });

  it('says that protection alone keeps a pod, and what it would take for a DaemonSet pod to go', () => {
    const kept = { ...web, isProtected: true };
    expect(ask(kept, [kept, job])).toMatchObject({
      isVictim: false,
      changes: [{ what: 'protection', now: true }],
      usageObstacle: { kind: 'passed-over', because: 'protected' },
    });
    const agent = aPod({ name: 'agent', isDaemonSet: true, workingSetBytes: MI, requests: requesting(10 * MI) });
    expect(ask(agent, [agent])?.changes).toMatchObject([
      { what: 'usage', bound: 'at-least', value: 10 * MI + 1 },
      { what: 'request', bound: 'at-most', value: MI - 1 },
    ]);
  });

  it('takes a pod without statistics over all that it could use', () => {
    const silent = { ...web, usage: { ...web.usage, containers: absent } };
    expect(ask(silent, [silent, job])?.changes[0]).toEqual({
      what: 'usage',
      now: null,
      bound: 'at-most',
      value: 400 * MI,
    });
  });

  it('knows that images are nobody’s where writable layers lie on the node’s own disk', () => {
    const observation: Partial<Observation> = { fsLayout: known('containerfs-separate') };
    const signals = { 'imagefs.available': { available: GI, capacity: 100 * GI } };
    const config = aConfig([aThreshold('imagefs.available', 2 * GI)]);
    const look = aLook([web, job], { observation, signals, config });
    expect(counterfactuals(look, 'imagefs.available', 'uid-web')?.usageObstacle).toEqual({ kind: 'not-counted' });
  });

  it('has no request to offer for processes', () => {
    const look = aLook([aPod({ name: 'a', processes: 50 }), aPod({ name: 'b', processes: 20 })], {
      signals: { 'pid.available': { available: 10, capacity: 1_000 } },
      config: aConfig([aThreshold('pid.available', 100)]),
    });
    expect(counterfactuals(look, 'pid.available', 'uid-a')?.changes).toMatchObject([
      { what: 'usage', now: 50, bound: 'at-most', value: 19 },
      { what: 'priority', bound: 'at-least', value: 1 },
      { what: 'protection' },
    ]);
  });

  it('offers the request of the resource that the signal is of', () => {
    const on = (signal: Signal, nodefsInodes = 0) => {
      const usage = (volumesBytes: number, volumesInodes: number): Partial<PodView['usage']> => ({
        disk: known({ logsBytes: 0, rootfsBytes: 0, volumesBytes, logsInodes: 0, rootfsInodes: 0, volumesInodes }),
      });
      const big = aPod({ name: 'big', usage: usage(9 * MI, 900) });
      const small = aPod({ name: 'small', usage: usage(5 * MI, 500) });
      const available = signal === 'nodefs.inodesFree' ? nodefsInodes : MI;
      const look = aLook([big, small], {
        signals: { [signal]: { available, capacity: 1_000 * MI } },
        config: aConfig([aThreshold(signal, 100 * MI)]),
      });
      return counterfactuals(look, signal, 'uid-big')?.changes;
    };
    expect(on('nodefs.available')).toContainEqual({ what: 'usage', now: 9 * MI, bound: 'at-most', value: 5 * MI - 1 });
    expect(on('nodefs.available')).toContainEqual({ what: 'request', now: 0, bound: 'at-least', value: 4 * MI + 1 });
    expect(on('nodefs.inodesFree')).toContainEqual({ what: 'usage', now: 900, bound: 'at-most', value: 499 });
  });

  it('offers the usage that the layout of the file systems counts', () => {
    const disk = (rootfsBytes: number, volumesBytes: number): Partial<PodView['usage']> => ({
      disk: known({ logsBytes: 0, rootfsBytes, volumesBytes, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 }),
    });
    const big = aPod({ name: 'big', usage: disk(9 * MI, 8 * MI) });
    const small = aPod({ name: 'small', usage: disk(5 * MI, 3 * MI) });
    const on = (signal: Signal) => {
      const look = aLook([big, small], {
        signals: { [signal]: { available: MI, capacity: 1_000 * MI } },
        config: aConfig([aThreshold(signal, 100 * MI)]),
        observation: { fsLayout: known('imagefs-separate') },
      });
      return counterfactuals(look, signal, 'uid-big')?.changes[0];
    };
    expect(on('imagefs.available')).toEqual({ what: 'usage', now: 9 * MI, bound: 'at-most', value: 5 * MI - 1 });
    expect(on('nodefs.available')).toEqual({ what: 'usage', now: 8 * MI, bound: 'at-most', value: 3 * MI - 1 });
  });

  it('takes a pod without statistics for the victim whatever it used, where any number would save it', () => {
    const silent = { ...web, priority: 10, usage: { ...web.usage, containers: absent } };
    const saved = { what: 'usage', now: null, bound: 'at-most', value: 4 * GI };
    expect(ask(silent, [silent, job])).toMatchObject({ isVictim: true, changes: [saved, { what: 'protection' }] });
  });

  it('offers memory up to what memory and swap hold together, where swap counts', () => {
    const wide = aPod({ name: 'wide', workingSetBytes: 5 * GI });
    const slim = aPod({ name: 'slim', workingSetBytes: MI });
    const signals = { ...short, 'swap.available': { available: 10 * MI, capacity: 2 * GI } };
    const config = aConfig([hard, aThreshold('swap.available', 100 * MI)]);
    const usage = (signal: Signal) =>
      counterfactuals(aLook([wide, slim], { signals, config }), signal, 'uid-slim')?.changes.filter(
        ({ what }) => what === 'usage',
      );
    expect(usage('swap.available')).toEqual([{ what: 'usage', now: MI, bound: 'at-least', value: 5 * GI }]);
    expect(usage('memory.available')).toEqual([]);
  });

  it('knows no bound where the capacity is not known', () => {
    const look = aLook([web, job], { signals: {} });
    expect(counterfactuals(look, 'memory.available', 'uid-job')?.changes[0]).toMatchObject({ value: 400 * MI });
  });

  it('says what passes a pod over where nobody is chosen at all', () => {
    expect(ask(dns, [dns])).toMatchObject({
      isVictim: false,
      other: null,
      usageObstacle: { kind: 'passed-over', because: 'static-critical' },
    });
  });

  it('names the comparator that keeps a victim one, however little it uses', () => {
    const look = aLook([aPod({ name: 'a', processes: 50 }), aPod({ name: 'b', processes: 20, priority: 10 })], {
      signals: { 'pid.available': { available: 10, capacity: 1_000 } },
      config: aConfig([aThreshold('pid.available', 100)]),
    });
    expect(counterfactuals(look, 'pid.available', 'uid-a')).toMatchObject({
      isVictim: true,
      usageObstacle: { kind: 'decided', by: 'priority', against: 'uid-b' },
    });
  });

  it('has an answer for no pod that is not there', () => {
    expect(counterfactuals(aLook([web]), 'memory.available', 'uid-job')).toBeNull();
  });

  it('offers no usage above the capacity of the node, nor a priority that no user may give', () => {
    const wide = aPod({ name: 'wide', workingSetBytes: 5 * GI, priority: -(2 ** 31) });
    const slim = aPod({ name: 'slim', workingSetBytes: MI, priority: -(2 ** 31) });
    expect(ask(slim, [wide, slim])?.changes.map(({ what }) => what)).toEqual([]);
    const top = aPod({ name: 'top', workingSetBytes: 5 * GI, priority: 1_000_000_000 });
    expect(ask(top, [top, aPod({ name: 'low', priority: 1_000_000_000, workingSetBytes: MI })])?.changes).toEqual([
      { what: 'usage', now: 5 * GI, bound: 'at-most', value: MI },
      { what: 'protection', now: false },
    ]);
  });
});
