import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { counterfactuals, type ExplainedLook, explain, signalOf, thresholdsOf } from '../../src/core/explain.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { ifKnown, known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import type { State } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { aConfig, aPod, aThreshold, GI, MI } from '../a.ts';
import { absent, aLook, db, dns, hard, job, requesting, short, web } from './an-explained-look.ts';

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

  it('is the one acted on, even if one without candidates comes before it', () => {
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

  it('is one without candidates rather than one whose victim is awaited', () => {
    const config = { ...aConfig([hard, disk]), isLive: true } as const;
    const first = aLook([dns, writer], { signals: full, config });
    const { state } = decide(first.state, first.observation, config);
    expect(signalOf(aLook([dns, writer], { signals: { ...short, ...full }, config, state }))).toBe('memory.available');
  });

  it('is that of a reclaim or an awaited victim rather than one whose grace period is running', () => {
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

  it('is one for which a reclaim has freed enough', () => {
    const look = aLook([web], { signals: {} });
    expect(signalOf({ ...look, reasons: [{ code: 'reclaim-sufficed', signal: 'imagefs.available' }] })).toBe(
      'imagefs.available',
    );
  });

  it('is the one that is ripe rather than one whose grace period is running', () => {
    const soft = aThreshold('memory.available', 100 * MI, { graceMs: 60_000 });
    const look = aLook([], { signals: { ...short, ...full }, config: aConfig([soft, disk]) });
    expect(signalOf({ ...look, decisions: [], reasons: [] })).toBe('nodefs.available');
    const grace = aLook([], { signals: { ...short, ...full }, config: aConfig([softDisk, soft]) });
    expect(signalOf(grace)).toBe('memory.available');
  });
});

describe('the thresholds that apply', () => {
  it('are the configured ones at the first look, and also the copies for containerfs from the second on', () => {
    const config = aConfig([aThreshold('nodefs.available', GI)]);
    const signals = (state: Partial<State>) =>
      thresholdsOf(aLook([web], { signals: {}, config, state })).map(({ signal }) => signal);
    expect(signals({ lastLookMs: null })).toEqual(['nodefs.available']);
    expect(signals({ lastLookMs: 9_000 })).toEqual(['nodefs.available', 'containerfs.available']);
  });
});

describe('the ranking explained', () => {
  it('names the comparators in order, and what each puts first', () => {
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

  it('shows what the signal counts: memory, processes, or usage of the file system', () => {
    const pod = aPod({ name: 'a', workingSetBytes: 3, processes: 5, diskBytes: 7 });
    const usage = (signal: Signal, of = pod) => explain(aLook([of]), signal)?.pods[0]?.usage;
    expect(usage('memory.available')).toEqual(known(3));
    expect(usage('pid.available')).toEqual(known(5));
    expect(usage('nodefs.available')).toEqual(known(7));
    expect(usage('nodefs.available', { ...pod, usage: { ...pod.usage, disk: absent } })).toEqual(absent);
    // Without statistics there are no numbers.
    expect(usage('pid.available', { ...pod, usage: { ...pod.usage, containers: absent } })).toEqual(absent);
  });

  it("compares what a pod's end frees with what the signal lacks (D14)", () => {
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

  it('says for every pod whether it is chosen, comes later or is passed over, and why', () => {
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

  it('says so also if another pod may come before the first one', () => {
    const unread = unknown('unreadable', 'memory.current', 'EIO');
    const kept = aPod({ name: 'kept', isProtected: true, workingSetBytes: GI });
    const lost = { ...db, name: 'lost', uid: 'uid-lost', usage: { ...db.usage, workingSetBytes: unread } };
    const look = aLook([kept, db, lost], { config: { ...aConfig([hard]), isLive: true } });
    expect(look.reasons).toContainEqual({ code: 'passed-over', uid: 'uid-kept', because: 'protected' });
    expect(look.reasons.at(-1)).toMatchObject({ code: 'order-unproven', uid: 'uid-db' });
    expect(order(look)).toEqual([
      ['kept', 'protected'],
      ['db', 'candidate'],
      ['lost', 'candidate'],
    ]);
  });

  it('agrees with the decision of the look, even while another eviction is in progress', () => {
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

  it('names the loop guard if an owner lost too many pods (D6)', () => {
    const ownerKills = Array.from({ length: 3 }, (_, i) => ({ ownerKey: 'rs', atMs: 9_000 + i }));
    const config = aConfig([hard], { guard: { kills: 3, windowMs: 600_000 } });
    const look = aLook([{ ...web, ownerKey: 'rs' }, job], { state: { ownerKills }, config });
    expect(order(look)).toEqual([
      ['web', 'guard'],
      ['job', 'victim'],
    ]);
  });

  it('says that a pod is kept because a victim holds outside what is lacking (D3), as long as anything is', () => {
    const within = aPod({ name: 'within', workingSetBytes: MI, requests: requesting(GI) });
    const state = { escaped: [{ decision: 'd', cgroup: { path: '/w', inode: 1 } }] };
    expect(order(aLook([within], { state }))).toEqual([['within', 'escaped']]);
    expect(order(aLook([within], { state, signals: {} }))).toEqual([['within', 'victim']]);
    const observation = { escaped: [{ of: 'd', memoryBytes: MI, processIds: 1 }] };
    expect(order(aLook([within], { state, observation }))).toEqual([['within', 'victim']]);
  });

  it('does not say that a pod is kept because a victim holds what is lacking before anything is', () => {
    const ending = aPod({ name: 'ending', isTerminating: true, workingSetBytes: GI });
    const within = aPod({ name: 'within', workingSetBytes: MI, requests: requesting(GI) });
    const config = { ...aConfig([hard]), isLive: true } as const;
    const plenty = { 'memory.available': { available: 2 * GI, capacity: 4 * GI } };
    expect(order(aLook([ending, within], { config, signals: plenty }))).toEqual([
      ['ending', 'terminating'],
      ['within', 'victim'],
    ]);
    expect(order(aLook([ending, within], { config }))?.[1]).toEqual(['within', 'escaped']);
  });

  describe('names whom the look evicts', () => {
    const evicted = ({ decisions }: ExplainedLook) =>
      decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.victim.name] : []));
    const hog = aPod({ name: 'hog', workingSetBytes: 900 * MI, requests: requesting(100 * MI) });
    const within = aPod({ name: 'within', workingSetBytes: 300 * MI, requests: requesting(400 * MI) });
    const config = { ...aConfig([hard]), isLive: true } as const;

    it.each(['budget-refused', 'budgets-refuse', 'kubelet-evicting'] as const)(
      'although it is limited by %s: not under a hard threshold',
      (limitedBy) => {
        const look = aLook([{ ...hog, limitedBy }, job], { config });
        expect(evicted(look)).toEqual(['hog']);
        expect(order(look)?.[0]).toEqual(['hog', 'victim']);
        expect(counterfactuals(look, 'memory.available', hog.uid)?.isVictim).toBe(true);
        const soon = aLook([{ ...hog, limitedBy }, job], { config, signals: {} });
        expect(order(soon)?.[0]).toEqual(['hog', 'victim']);
        const soft = aConfig([aThreshold('memory.available', 100 * MI, { graceMs: 60_000 })]);
        expect(order(aLook([{ ...hog, limitedBy }, job], { config: soft }))?.[0]).toEqual(['hog', limitedBy]);
      },
    );

    it('and nobody within its request for what a survivor holds, even if only the min reclaim is open', () => {
      const threshold = aThreshold('memory.available', 100 * MI, { minReclaimBytes: 500 * MI });
      const look = aLook([{ ...hog, isTerminating: true }, within], {
        config: { ...config, thresholds: [threshold] },
        signals: { 'memory.available': { available: 200 * MI, capacity: 4 * GI } },
        state: { lastLookMs: 9_000, firstMetMs: { [threshold.id]: 5_000 }, unresolved: [threshold.id] },
      });
      expect(evicted(look)).toEqual([]);
      expect(order(look)).toEqual([
        ['hog', 'terminating'],
        ['within', 'escaped'],
      ]);
    });
  });

  it('is none for a disk while the layout is not known, unless what was measured is about that disk', () => {
    const pod = aPod({ name: 'a', diskBytes: 7 });
    const look = (of: PodView) => aLook([of], { observation: { fsLayout: absent } });
    expect(explain(look(pod), 'imagefs.available')).toBeNull();
    expect(counterfactuals(look(pod), 'imagefs.available', pod.uid)).toBeNull();
    expect(explain(look(pod), 'memory.available')?.pods).toHaveLength(1);
    const disk = ifKnown(pod.usage.disk, (used) => known({ ...used, isOfFileSystem: true as const }));
    const own = { ...pod, usage: { ...pod.usage, disk } };
    expect(explain(look(own), 'nodefs.available')?.pods[0]?.usage).toEqual(known(7));
  });

  it('chooses none if all are critical, and is empty if the pods are unknown', () => {
    expect(explain(aLook([dns]), 'memory.available')?.victim).toBeNull();
    expect(order(aLook([dns]))).toEqual([['dns', 'static-critical']]);
    const look = aLook([], { observation: { pods: unknown('timed-out', 'x', 'y') } });
    expect(explain(look, 'memory.available')).toBeNull();
    expect(counterfactuals(look, 'memory.available', 'uid-web')).toBeNull();
  });

  it('shows an unmeasured number as unknown, although it counts as 0', () => {
    const look = aLook([{ ...web, usage: { ...web.usage, workingSetBytes: absent } }]);
    const [row] = explain(look, 'memory.available')?.pods ?? [];
    expect(row?.usage).toEqual(absent);
    expect(row?.row.values[0]).toEqual({ by: 'over-request', value: known(false), isMissing: true });
  });
});
