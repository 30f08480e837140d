import { describe, expect, it } from 'vitest';
import { type Choice, firstCandidate } from '../../../src/core/eviction/candidate.ts';
import { guardAfter, isGuarded } from '../../../src/core/eviction/loop-guard.ts';
import { rank } from '../../../src/core/eviction/rank.ts';
import type { Heard, Outcome } from '../../../src/core/outcome.ts';
import { EVICT_RESOURCES } from '../../../src/core/pod/evict-for.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { unknown } from '../../../src/core/reading.ts';
import { SIGNAL_FACTS, SIGNALS, type Signal } from '../../../src/core/signal.ts';
import { aConfig, aPod, MI } from '../../a.ts';
import { aCore, ended, hardMemory, idOf, sent, victims } from './a-live-core.ts';

const absent = unknown('absent', 'test', 'no statistics');
const unmeasured = { containers: absent, workingSetBytes: absent };

/** The choice; `guarded` names pods whose owner lost too many. */
function choice(signal: Signal, pods: readonly PodView[], guarded: readonly string[] = []): Choice {
  return firstCandidate(signal, rank(signal, pods, 'nodefs-only'), [], ({ name }) => guarded.includes(name), 0);
}

/** Who goes under memory pressure. */
function victim(pods: readonly PodView[], guarded: readonly string[] = []): string | undefined {
  return choice('memory.available', pods, guarded).victim?.name;
}

describe('the choice from the ranking', () => {
  it('passes over a DaemonSet pod without statistics, because nothing shows that it exceeds its request', () => {
    const agent = aPod({ name: 'agent', isDaemonSet: true, usage: unmeasured });
    const web = aPod({ name: 'web', workingSetBytes: MI });
    expect(victim([agent, web])).toBe('web');
    expect(victim([agent])).toBe(undefined);
  });

  it('takes any other pod without statistics first, as the kubelet does', () => {
    const fresh = aPod({ name: 'fresh', usage: unmeasured });
    const web = aPod({ name: 'web', workingSetBytes: MI });
    expect(victim([web, fresh])).toBe('fresh');
  });

  it('lets a guarded pod yield to one that is seen above its request, not to one without statistics', () => {
    const loop = aPod({ name: 'loop', priority: -1, usage: unmeasured });
    const fresh = aPod({ name: 'fresh', usage: unmeasured });
    const web = aPod({ name: 'web', workingSetBytes: MI });
    expect(victim([loop, fresh, web], ['loop'])).toBe('web');
    expect(victim([loop, fresh], ['loop'])).toBe('loop');
  });

  it('takes DaemonSet pods last for a signal without requests, among the protected as among the others', () => {
    const agent = aPod({ name: 'agent', isDaemonSet: true, processes: 9 });
    const kept = aPod({ name: 'kept', isProtected: true });
    const keptAgent = aPod({ name: 'kept-agent', isProtected: true, isDaemonSet: true, processes: 9 });
    const web = aPod({ name: 'web' });
    const order = (...pods: readonly PodView[]) => choice('pid.available', pods).victim?.name;
    expect(order(web, kept, agent, keptAgent)).toBe('web');
    expect(order(kept, agent, keptAgent)).toBe('agent');
    expect(order(kept, keptAgent)).toBe('kept');
    expect(order(keptAgent)).toBe('kept-agent');
    expect(choice('pid.available', [kept, keptAgent])).toMatchObject({
      passedOver: [{ uid: keptAgent.uid, because: 'daemonset-within-request' }],
      differences: ['D8', 'D7'],
    });
  });
});

describe('why a pod is passed over', () => {
  const web = aPod({ name: 'web', workingSetBytes: MI });
  const first = (rest: Parameters<typeof aPod>[0]) => aPod({ name: 'first', workingSetBytes: 9 * MI, ...rest });
  const guarded = ['first'];

  it.each<[string, Parameters<typeof aPod>[0], readonly string[], string, readonly string[]]>([
    ['static or critical', { isStaticCritical: true }, [], 'static-critical', []],
    ['protected', { isProtected: true }, [], 'protected', ['D7']],
    ['not evicted for this resource', { evictFor: ['disk', 'pids'] }, [], 'evict-for', ['D7']],
    ['of an owner that lost too many', {}, guarded, 'guard', ['D6']],
    ['terminating', { isTerminating: true }, [], 'terminating', ['D3']],
    ['just restarted', { limitedBy: 'restart-guard' }, guarded, 'restart-guard', ['D13']],
    ['whose end resets the machine', { limitedBy: 'ends-machine' }, [], 'ends-machine', ['D13']],
    ['not stoppable', { limitedBy: 'not-stoppable' }, [], 'not-stoppable', ['D13']],
    ['perhaps empty', { limitedBy: 'maybe-empty' }, [], 'maybe-empty', ['D13']],
    ['between two runs', { isBetweenRuns: true }, [], 'between-runs', ['D13']],
    ['not declared', { limitedBy: 'unnamed' }, [], 'unnamed', ['D13']],
    ['evicted by the kubelet', { limitedBy: 'kubelet-evicting' }, [], 'kubelet-evicting', ['D13']],
  ])('%s: the decision names the reason and the difference', (_, rest, names, because, differences) => {
    const { victim: chosen, passedOver, differences: given } = choice('memory.available', [first(rest), web], names);
    expect(chosen?.name).toBe('web');
    expect(passedOver).toEqual([{ code: 'passed-over', uid: 'uid-first', because }]);
    expect(given).toEqual(differences);
  });

  it('while a manifest is not read, only a pod that is known to be to blame is evicted', () => {
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const limitedBy = 'manifest-unread';
    const db = aPod({ name: 'db', requests, workingSetBytes: MI, processes: 1, limitedBy });
    const over = { ...web, priority: 9, limitedBy } as const;
    expect(choice('memory.available', [db, over]).victim?.name).toBe('web');
    expect(choice('memory.available', [db])).toMatchObject({
      victim: null,
      nobody: 'manifest-unread',
      passedOver: [{ code: 'passed-over', uid: db.uid, because: 'manifest-unread' }],
      differences: ['D13'],
    });
    const ofPids = (lacking: number) =>
      firstCandidate('pid.available', rank('pid.available', [db], 'nodefs-only'), [], () => false, lacking);
    expect([ofPids(1).victim?.name, ofPids(2).victim]).toEqual(['db', null]);
  });

  it.each<PodView['limitedBy']>(['manifest-unread', 'budget-refused', 'budgets-refuse'])(
    'a protected pod, even above its request, is not evicted while another is only spared for now: %s',
    (limitedBy) => {
      const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
      const hog = aPod({ name: 'hog', requests, workingSetBytes: 8 * MI, limitedBy });
      const ofAll = limitedBy === 'manifest-unread' ? limitedBy : null;
      const kept = first({ isProtected: true, limitedBy: ofAll });
      const passed = { code: 'passed-over', uid: kept.uid, because: 'protected' };
      const found = choice('memory.available', [kept, hog]);
      expect(found).toMatchObject({ victim: null, nobody: ofAll });
      expect(found.passedOver).toContainEqual(passed);
      expect(choice('memory.available', [kept, hog, { ...web, limitedBy: ofAll }]).victim?.name).toBe('web');
    },
  );

  it('a protected pod is not evicted while it is not known whether another one, which is left, has processes', () => {
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const hog = aPod({ name: 'hog', requests, workingSetBytes: 8 * MI, processes: 1, limitedBy: 'maybe-empty' });
    const kept = first({ isProtected: true, processes: 9 });
    const unproven = { first: kept, against: hog };
    expect(choice('memory.available', [kept, hog])).toMatchObject({ victim: null, unproven });
    expect(choice('pid.available', [kept, hog])).toMatchObject({ victim: null, unproven });
    expect(choice('memory.available', [kept, hog, web]).victim?.name).toBe('web');
    const barred = [{ isDaemonSet: true }, { isProtected: true }, { isStaticCritical: true }];
    for (const why of barred) expect(choice('memory.available', [kept, { ...hog, ...why }]).victim?.name).toBe('first');
    const noDirectory = { diskRelief: unknown('not-applicable', 'test', 'it declares none') };
    expect(choice('nodefs.available', [{ ...kept }, { ...hog, ...noDirectory }]).victim?.name).toBe('first');
  });

  it('a protected pod is not evicted while a manifest is not read: another pod may be in it', () => {
    const kept = first({ isProtected: true, limitedBy: 'manifest-unread' });
    expect(choice('memory.available', [kept])).toMatchObject({ victim: null, nobody: 'manifest-unread' });
    expect(choice('memory.available', [{ ...kept, limitedBy: null }]).victim?.name).toBe('first');
  });

  it.each(SIGNALS)(
    'evict-for: under %s, a pod is evicted only for a resource that it names, even if no other is left',
    (signal) => {
      const { resource } = SIGNAL_FACTS[signal];
      const named = resource === 'memory' || resource === 'pids' ? resource : 'disk';
      const db = aPod({ name: 'db', workingSetBytes: MI, processes: 5, diskBytes: MI, isProtected: true });
      for (const evictFor of EVICT_RESOURCES) {
        const found = choice(signal, [{ ...db, evictFor: [evictFor] }]);
        expect([found.victim?.name ?? null, found.nobody]).toEqual(
          evictFor === named ? ['db', null] : [null, 'evict-for'],
        );
      }
      expect(choice(signal, [{ ...db, evictFor: [] }]).victim).toBeNull();
    },
  );

  it('evict-for: it is the reason that nobody is chosen only if nothing else rules the pod out', () => {
    const evictFor = ['disk'] as const;
    const nobody = (signal: Signal, ...pods: readonly PodView[]) => choice(signal, pods).nobody;
    expect(nobody('memory.available', first({ evictFor, isStaticCritical: true }))).toBeNull();
    expect(nobody('memory.available', first({ evictFor, limitedBy: 'not-stoppable' }))).toBeNull();
    expect(nobody('memory.available', first({ evictFor }), first({ name: 'dns', isStaticCritical: true }))).toBe(
      'evict-for',
    );
    const useless = { diskRelief: unknown('absent', 'test', 'nothing measured') };
    expect(nobody('nodefs.available', first({ evictFor: ['memory'], ...useless }), aPod(useless))).toBe('no-relief');
    expect(nobody('nodefs.available', first({ evictFor: ['memory'] }), aPod(useless))).toBe('evict-for');
  });

  it('deleted by others: it ranks as in the kubelet', () => {
    expect(choice('memory.available', [first({ isTerminating: true, isDeletedByOthers: true }), web])).toMatchObject({
      victim: { name: 'first' },
      differences: [],
    });
  });

  it('within its request: pods that others have deleted come first if they free enough together', () => {
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const db = aPod({ name: 'db', workingSetBytes: 8 * MI, requests, priority: -1 });
    const ending = ['a', 'b'].map((name) =>
      aPod({ name, workingSetBytes: 4 * MI, requests, isTerminating: true, isDeletedByOthers: true }),
    );
    const by = (lacking: number, pods: readonly PodView[]) =>
      firstCandidate('memory.available', rank('memory.available', pods, 'nodefs-only'), [], () => false, lacking);
    expect(by(8 * MI, [db, ...ending])).toMatchObject({
      victim: { name: 'a' },
      passedOver: [{ uid: 'uid-db', because: 'others-end' }],
      differences: ['D3', 'D1'],
    });
    expect(by(9 * MI, [db, ...ending]).victim?.name).toBe('db');
    expect(by(8 * MI, [db, ...ending, first({})]).victim?.name).toBe('first');
    expect(by(0, [db]).victim?.name).toBe('db');
  });

  it('not declared in the API: it yields only to pods that are known to exceed their request (C9)', () => {
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const hidden = aPod({ name: 'hidden', workingSetBytes: 5 * MI, unsaid });
    const db = aPod({ name: 'db', workingSetBytes: 8 * MI, requests });
    const by = (pods: readonly PodView[], lacking = 0, signal: Signal = 'memory.available') =>
      firstCandidate(signal, rank(signal, pods, 'nodefs-only'), [], () => false, lacking);
    expect(by([db, hidden])).toMatchObject({ victim: { name: 'hidden' }, differences: ['D13'] });
    expect(by([db, hidden, web])).toMatchObject({
      victim: { name: 'web' },
      passedOver: [{ uid: 'uid-hidden', because: 'declaration-unknown' }],
      differences: ['D13'],
    });
    // It holds less than is lacking.
    expect(by([db, hidden], 6 * MI).victim?.name).toBe('db');
    expect(by([hidden], 6 * MI).victim).toBeNull();
    const guaranteed = { ...hidden, requests, unsaid: { ...unsaid, requests: false } };
    expect(by([db, guaranteed]).victim?.name).toBe('db');
    expect(by([guaranteed]).victim?.name).toBe('hidden');
    expect(by([hidden], 0, 'nodefs.available').victim).toBeNull();
    const unread = { ...hidden, requests, unsaid: { why: 'unreadable', priority: false, requests: true } } as const;
    expect(by([db, unread], 6 * MI).victim?.name).toBe('hidden');
    // Which of two exceeds its request nobody knows; of one without a request it is known.
    const other = aPod({ name: 'other', workingSetBytes: 7 * MI, unsaid });
    expect(by([db, hidden, other])).toMatchObject({
      victim: null,
      passedOver: [
        { because: 'declaration-unknown' },
        { because: 'declaration-unknown' },
        { because: 'not-over-request' },
      ],
    });
    const bestEffort = aPod({
      name: 'best',
      qos: 'BestEffort',
      workingSetBytes: MI,
      unsaid: { ...unsaid, requests: false },
    });
    expect(by([db, hidden, other, bestEffort]).victim?.name).toBe('best');
  });

  it('its disruption budget has refused: it yields only to a pod that exceeds its request (B1)', () => {
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const db = aPod({ name: 'db', workingSetBytes: 8 * MI, requests });
    const kept = first({ limitedBy: 'budget-refused' });
    expect(choice('memory.available', [kept, web, db])).toMatchObject({
      victim: { name: 'web' },
      differences: ['D18'],
    });
    expect(choice('memory.available', [kept, db])).toMatchObject({
      victim: null,
      passedOver: [
        { uid: 'uid-first', because: 'budget-refused' },
        { uid: 'uid-db', because: 'budget-innocent' },
      ],
      differences: ['D18'],
    });
  });

  it('gives way to none that exceeds its request by less than a tenth of what it does: that would hardly help', () => {
    const tiny = aPod({ name: 'tiny', workingSetBytes: 9 * MI - 1 });
    const enough = aPod({ name: 'enough', priority: 1, workingSetBytes: 9 * MI });
    const hog = (limitedBy: PodView['limitedBy'] = null) =>
      aPod({ name: 'hog', priority: -1, workingSetBytes: 90 * MI, limitedBy });
    const because = 'too-little';
    expect(choice('memory.available', [hog(), tiny], ['hog']).victim?.name).toBe('hog');
    expect(choice('memory.available', [hog(), tiny, enough], ['hog'])).toMatchObject({
      victim: { name: 'enough' },
      passedOver: [{ because: 'guard' }, { uid: 'uid-tiny', because }],
      differences: ['D6'],
    });
    expect(choice('memory.available', [hog('budget-refused'), tiny])).toMatchObject({
      victim: null,
      passedOver: [{ because: 'budget-refused' }, { uid: 'uid-tiny', because }],
      differences: ['D18'],
    });
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    expect(choice('memory.available', [{ ...hog(), unsaid }, tiny])).toMatchObject({ victim: { name: 'hog' } });
  });

  it('just restarted: it is chosen again rather than a pod within its request', () => {
    const again = first({ limitedBy: 'restart-guard' });
    const requests = { memoryBytes: 4 * MI, ephemeralStorageBytes: 0 };
    const database = aPod({ name: 'db', workingSetBytes: MI, requests });
    expect(isGuarded(again, [], null, 0)).toBe(true);
    expect(choice('memory.available', [again, database], guarded).victim?.name).toBe('first');
  });

  it('a DaemonSet pod within its request: it is passed over even if it ranks first and no pod exceeds its request', () => {
    const agent = aPod({ name: 'agent', isDaemonSet: true, priority: -1 });
    expect(choice('memory.available', [agent, aPod({ name: 'web' })])).toMatchObject({
      victim: { name: 'web' },
      passedOver: [{ uid: 'uid-agent', because: 'daemonset-within-request' }],
      differences: ['D8'],
    });
  });

  it.each([
    ['its age', { startedAtWallMs: 5 }],
    ['its name', { name: 'a' }],
  ])('a pod that only %s puts first is a difference', (_, rest) => {
    const { differences } = choice('memory.available', [aPod({ name: 'b' }), aPod({ name: 'c', ...rest })]);
    expect(differences).toEqual(['D1']);
  });

  it('so is a pod that only its uid puts first', () => {
    const pods = ['1', '2'].map((uid) => aPod({ name: 'web', uid }));
    expect(choice('memory.available', pods)).toMatchObject({ victim: { uid: '1' }, differences: ['D1'] });
  });

  it('a choice that the kubelet would make too is no difference', () => {
    expect(choice('memory.available', [web, aPod({ name: 'idle' })]).differences).toEqual([]);
  });
});

describe('the loop guard (D6)', () => {
  const guard = { kills: 2, windowMs: 1_000 };
  const pod = aPod({ ownerKey: 'shop/web' });
  const kill = (atMs: number, ownerKey = 'shop/web') => ({ ownerKey, atMs });

  it.each<[string, readonly ReturnType<typeof kill>[], boolean]>([
    ['it lost as many as are allowed', [kill(1), kill(2)], true],
    ['it lost one fewer', [kill(1)], false],
    ['another owner lost them', [kill(1), kill(2, 'shop/db')], false],
    ['one of them is just within the window', [kill(1), kill(999)], true],
    ['one of them is exactly a window ago', [kill(0), kill(999)], false],
  ])('holds for an owner if %s: %#', (_, kills, isHeld) => {
    expect(isGuarded(pod, kills, guard, 1_000)).toBe(isHeld);
  });

  it('never holds for a pod without an owner, nor if it is off', () => {
    const kills = [kill(1), kill(2)];
    expect(isGuarded(aPod({}), kills, guard, 10)).toBe(false);
    expect(isGuarded(pod, kills, null, 10)).toBe(false);
    expect(guardAfter(kills, pod, null, 10)).toEqual([]);
  });

  it('remembers the kills within the window, at most the newest 200', () => {
    expect(guardAfter([kill(0), kill(1)], pod, guard, 1_000)).toEqual([kill(1), kill(1_000)]);
    expect(guardAfter([kill(0), kill(1)], null, guard, 1_000)).toEqual([kill(1)]);
    expect(guardAfter([kill(0), kill(1)], aPod({}), guard, 999)).toEqual([kill(0), kill(1)]);
    const many = Array.from({ length: 250 }, () => kill(5));
    expect(guardAfter(many, pod, guard, 6)).toEqual([...many.slice(0, 199), kill(6)]);
  });

  const hog = aPod({ name: 'hog', ownerKey: 'shop/hog', workingSetBytes: 900 * MI });
  /** Who is chosen at each of these crossings, if each choice ends like this. */
  const chosen = (
    outcomes: (of: string, atMs: number) => readonly Heard[],
    crossings = [0, 60_000, 120_000, 180_000],
  ): readonly string[] => {
    const config = { ...aConfig([hardMemory]), guard: { kills: 2, windowMs: 600_000 } };
    const core = aCore(config, [hog, aPod({ name: 'other', workingSetBytes: 100 * MI })]);
    return crossings.flatMap((atMs) => {
      const verdict = core.look(atMs, { memory: 50 });
      core.look(atMs + 10, { heard: outcomes(idOf(verdict), atMs + 9) });
      core.look(atMs + 20, {});
      return victims(verdict);
    });
  };
  type Dropped = Extract<Outcome, { kind: 'dropped' }>;
  const dropped = (of: string, atMs: number, because: Dropped['because']) =>
    ({ of, atMs, kind: 'dropped', because }) as const;

  it.each<readonly [string, (of: string, atMs: number) => readonly Heard[]]>([
    ['its budget refused', (of, atMs) => [dropped(of, atMs, 'budget-refused')]],
    ['the API server did not take', (of, atMs) => [dropped(of, atMs, 'eviction-not-taken')]],
    ['its declaration overtook', (of, atMs) => [dropped(of, atMs, 'changed')]],
    ['had come to nothing in an earlier run', (of, atMs) => [sent(of, atMs, 'sigkill'), dropped(of, atMs, 'stale')]],
    ['was for what has recovered', (of, atMs) => [dropped(of, atMs, 'no-longer-met')]],
  ])('counts no choice that %s before its pod was asked to stop, however often', (_, how) => {
    expect(chosen(how)).toEqual(['hog', 'hog', 'hog', 'hog']);
    expect(chosen(how, [0, 3_000, 6_000, 9_000])).toEqual(['hog', 'hog', 'hog', 'hog']);
  });

  it.each(['unresolved', 'moved', 'gone'] as const)(
    'lets a pod that could not be asked to stop yield for seconds: %s',
    (because) => {
      const how = (of: string, atMs: number) => [dropped(of, atMs, because)];
      expect(chosen(how, [0, 3_000, 6_000, 40_000])).toEqual(['hog', 'hog', 'other', 'hog']);
      expect(chosen(how)).toEqual(['hog', 'hog', 'hog', 'hog']);
      // What may pass by itself is given a moment.
      expect(chosen(how, [0, 30, 60, 90, 2_500])).toEqual(['hog', 'hog', 'hog', 'hog', 'hog']);
    },
  );

  it.each<readonly [string, (of: string, atMs: number) => readonly Heard[]]>([
    ['ended', (of, atMs) => [ended(of, atMs)]],
    ['a dry run would have made', (of, atMs) => [dropped(of, atMs, 'dry-run')]],
    [
      'was asked to stop, whatever became of it',
      (of, atMs) => [sent(of, atMs, 'sigterm'), dropped(of, atMs, 'rebound')],
    ],
  ])('counts one that %s', (_, outcomes) => {
    expect(chosen(outcomes)).toEqual(['hog', 'hog', 'other', 'other']);
  });
});
