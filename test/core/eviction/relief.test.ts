import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { DiskRelief, PodView, Relief } from '../../../src/core/pod/pod.ts';
import { known, type Reading, unknown } from '../../../src/core/reading.ts';
import type { Signal } from '../../../src/core/signal.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { sayReason } from '../../../src/words/reason.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../../a.ts';

const hidden = unknown('timed-out', 'disk', 'the walk was cut short');
const none: Relief = { bytes: known(0), inodes: known(0) };
const nothing: DiskRelief = { scratch: none, deletedOpen: none, grownLastMinute: none, writtenBytes: known(0) };
const bytes = (amount: number): Relief => ({ bytes: known(amount), inodes: known(0) });
const inodes = (amount: number): Relief => ({ bytes: known(0), inodes: known(amount) });

type Given = Parameters<typeof aPod>[0] & {
  readonly relief?: Partial<DiskRelief> | null;
  readonly atLeast?: number;
  readonly unwalked?: true;
  readonly unattributedBytes?: number;
  /** As in mode kubelet: all that it has goes with it. */
  readonly isWhole?: true;
};
/** `relief` null: nothing of it is known. */
function pod({ relief = {}, atLeast, unwalked, unattributedBytes, isWhole, ...rest }: Given): PodView {
  const view = aPod({ ...rest, diskBytes: atLeast ?? rest.diskBytes ?? 0 });
  const isAtLeast = atLeast === undefined ? {} : { isAtLeast: true as const };
  const diskRelief: Reading<DiskRelief> = relief === null ? hidden : known({ ...nothing, ...isAtLeast, ...relief });
  const kinds = {
    ...(isWhole ? {} : { isOfFileSystem: true as const }),
    ...isAtLeast,
    ...(unattributedBytes === undefined ? {} : { unattributedBytes }),
  };
  const disk = view.usage.disk.known ? known({ ...view.usage.disk.value, ...kinds }) : view.usage.disk;
  return { ...view, diskRelief, usage: { ...view.usage, disk: unwalked ? hidden : disk } };
}
function looked(
  pods: readonly PodView[],
  signal: Signal = 'nodefs.available',
  rest: Partial<Observation> = {},
  lacking = 10 * MI,
) {
  const short = { [signal]: { available: 100 * MI - lacking, capacity: 10 * GI } };
  const config = aConfig([aThreshold(signal, 100 * MI)], { isLive: true });
  return decide(initialState('boot'), anObservation(0, short, { pods: known(pods), podsFor: signal, ...rest }), config);
}
const namesOf = ({ decisions }: ReturnType<typeof looked>) =>
  decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.victim.name] : []));
const victims = (...given: Parameters<typeof looked>) => namesOf(looked(...given));
const atCrossing = (signal: Signal, lacking: number, pods: readonly PodView[]) =>
  namesOf(looked(pods, signal, {}, lacking));

describe('a candidate for a disk (D14)', () => {
  const large = pod({ name: 'large', diskBytes: 5 * GI });

  it.each([
    ['empties its scratch', { scratch: bytes(GI) }],
    ['closes deleted files', { deletedOpen: bytes(GI) }],
    ['stops growth', { grownLastMinute: bytes(GI) }],
    ['stops writes', { writtenBytes: known(GI) }],
    [
      'does one of these while the rest is unknown',
      { scratch: bytes(MI), deletedOpen: { bytes: hidden, inodes: hidden } },
    ],
  ])('is a pod whose end %s, and not the largest', (_, relief) => {
    expect(victims([large, pod({ name: 'small', diskBytes: MI, relief })])).toEqual(['small']);
  });

  it.each([
    ['scratch', MI],
    ['deletedOpen', MI],
    ['grownLastMinute', MI / 10],
  ] as const)('is no pod that frees or saves next to nothing of what is lacking: %s', (what, least) => {
    const small = (amount: number) => [pod({ name: 'small', relief: { [what]: bytes(amount) } })];
    expect([victims(small(least - 1)), victims(small(least + 1))]).toEqual([[], ['small']]);
  });

  it.each([
    ['1 MiB', 'nodefs.available', 4096, bytes, MI],
    ['1,000 inodes', 'nodefs.inodesFree', 2, inodes, 1_000],
  ] as const)('is none that frees less than %s, however little is lacking', (_, signal, lacking, of, least) => {
    const freeing = (amount: number) => [pod({ name: 'innocent', relief: { scratch: of(amount) } })];
    expect(atCrossing(signal, lacking, freeing(least - 1))).toEqual([]);
    expect(atCrossing(signal, lacking, freeing(least))).toEqual(['innocent']);
  });

  it('is none that grows by less than 64 KiB a minute, however little is lacking', () => {
    const little = anObservation(0, { 'nodefs.available': { available: 100 * MI - 1, capacity: 10 * GI } });
    const chosen = (amount: number) => {
      const pods = known([pod({ name: 'logs', relief: { grownLastMinute: bytes(amount) } })]);
      const config = aConfig([aThreshold('nodefs.available', 100 * MI)], { isLive: true });
      const { decisions } = decide(initialState('boot'), { ...little, pods, podsFor: 'nodefs.available' }, config);
      return decisions.some(({ kind }) => kind === 'evict');
    };
    expect([chosen(64 * 1024 - 1), chosen(64 * 1024)]).toEqual([false, true]);
  });

  it.each([
    ['what the limit lacks, below it', 90, MI],
    ['what the min reclaim lacks, while only that holds the threshold', 100, 10 * MI],
  ])('must help just as much with %s', (_, available, least) => {
    const threshold = aThreshold('nodefs.available', 100 * MI, { minReclaimBytes: 1_000 * MI });
    const held = {
      ...initialState('boot'),
      lastLookMs: 0,
      firstMetMs: { [threshold.id]: 0 },
      unresolved: [threshold.id],
    };
    const signals = { 'nodefs.available': { available: available * MI, capacity: 10 * GI } };
    const chosen = (amount: number) => {
      const pods = known([pod({ name: 'small', relief: { scratch: bytes(amount) } })]);
      const look = anObservation(100, signals, { pods, podsFor: 'nodefs.available' });
      return decide(held, look, aConfig([threshold], { isLive: true })).decisions.some(({ kind }) => kind === 'evict');
    };
    expect([chosen(least - 1), chosen(least + 1)]).toEqual([false, true]);
  });

  it('is one that grows by 1 MiB a minute, or 1,000 inodes, however much is lacking', () => {
    const all = (signal: Signal) => ({ signals: { [signal]: { available: 0, capacity: 900 * GI } } });
    const grows = (relief: Relief) => [pod({ name: 'slow', relief: { grownLastMinute: relief } })];
    const chosen = (relief: Relief, signal: Signal) => {
      const short = anObservation(0, all(signal).signals, { pods: known(grows(relief)), podsFor: signal });
      const config = aConfig([aThreshold(signal, 500 * GI)], { isLive: true });
      return decide(initialState('boot'), short, config).decisions.some(({ kind }) => kind === 'evict');
    };
    expect([chosen(bytes(MI - 1), 'nodefs.available'), chosen(bytes(MI), 'nodefs.available')]).toEqual([false, true]);
    expect([chosen(inodes(999), 'nodefs.inodesFree'), chosen(inodes(1_000), 'nodefs.inodesFree')]).toEqual([
      false,
      true,
    ]);
  });

  it('may be missing: then nobody is evicted, and the reason is given', () => {
    const verdict = looked([
      large,
      pod({ name: 'unknown', relief: null }),
      pod({ name: 'files', relief: { scratch: inodes(9) } }),
    ]);
    expect(verdict.decisions.filter(({ kind }) => kind !== 'set-condition')).toEqual([]);
    expect(verdict.reasons).toContainEqual(
      expect.objectContaining({ code: 'no-candidate', signal: 'nodefs.available', because: 'no-relief' }),
    );
    expect(verdict.reasons).toContainEqual({ code: 'passed-over', uid: 'uid-large', because: 'no-relief' });
  });

  it('may be missing although all is measured: no pod is said not to be', () => {
    const said = (relief: Partial<DiskRelief>): string | undefined =>
      looked([pod({ name: 'large', diskBytes: 5 * GI, relief })])
        .reasons.map((reason) => sayReason(reason, (uid) => uid.replace('uid-', 'default/')))
        .at(-1);
    const nobody = 'nodefs.available: no pod is evicted, since none is known to free enough there';
    expect(said({ deletedOpen: bytes(4096) })).toBe(nobody);
    const unattributed = bytes(4096);
    expect(said({ deletedOpen: bytes(4096), unattributed })).toBe(`${nobody}; default/large is not fully measured`);
  });

  it('for inodes is chosen by inodes: writing bytes makes no files', () => {
    const pods = [
      pod({ name: 'writer', relief: { writtenBytes: known(GI), grownLastMinute: bytes(GI) } }),
      pod({ name: 'files', relief: { grownLastMinute: inodes(10_000) } }),
    ];
    expect(victims(pods, 'nodefs.inodesFree')).toEqual(['files']);
    expect(victims(pods.slice(0, 1), 'nodefs.inodesFree')).toEqual([]);
  });

  it('is chosen as in the kubelet if this is not measured, and for memory', () => {
    const unread = aPod({ name: 'unread', usage: { disk: hidden } });
    expect(victims([aPod({ name: 'large', diskBytes: 5 * GI }), unread])).toEqual(['large']);
    expect(victims([pod({ name: 'leaker', workingSetBytes: GI })], 'memory.available')).toEqual(['leaker']);
  });

  it('that comes after a pod passed over names the difference', () => {
    const { decisions } = looked([large, pod({ name: 'small', diskBytes: MI, relief: { scratch: bytes(GI) } })]);
    expect(decisions).toContainEqual(expect.objectContaining({ kind: 'evict', differences: ['D14'] }));
  });

  it.each([[null], ['memory.available'], ['imagefs.available']] as const)(
    'is chosen from measurements of its own file system, not of %s',
    (podsFor) => {
      const given = [pod({ name: 'small', relief: { scratch: bytes(GI) } })];
      const layout = known('imagefs-separate' as const);
      const verdict = looked(given, 'nodefs.available', { podsFor, fsLayout: layout });
      expect(verdict.decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
      expect(verdict.next).toMatchObject({ afterMs: 0, pods: 'nodefs.available' });
    },
  );

  it('waits for those of its own file system while a shutdown needs all pods', () => {
    const given = [pod({ name: 'small', relief: { scratch: bytes(GI) } })];
    const verdict = looked(given, 'nodefs.available', { podsFor: 'all' });
    expect(verdict.decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(verdict.next).toMatchObject({ afterMs: 250, pods: 'nodefs.available' });
  });
});

describe('a usage that is only a lower bound', () => {
  const honest = (relief: number) =>
    pod({ name: 'honest', diskBytes: 2 * GI, relief: { grownLastMinute: bytes(relief) } });

  it('ranks a pod above a smaller value', () => {
    const cut = pod({ name: 'cut', atLeast: 5 * GI, relief: { grownLastMinute: bytes(MI) } });
    expect(victims([honest(50 * MI), cut])).toEqual(['cut']);
  });

  it.each([
    ['cut short', { atLeast: MI }],
    ['not walked at all', { unwalked: true as const }],
  ])('ranks none below: nobody is chosen if the pod %s may use more and grew as much', (_, cut) => {
    const hostile = pod({ name: 'hostile', ...cut, relief: { writtenBytes: known(GI) } });
    const verdict = looked([honest(50 * MI), hostile]);
    expect(verdict.decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(verdict.reasons).toContainEqual({
      code: 'order-unproven',
      signal: 'nodefs.available',
      uid: 'uid-honest',
      against: 'uid-hostile',
    });
    expect(verdict.reasons.map((reason) => sayReason(reason, (uid) => uid.replace('uid-', 'default/')))).toContain(
      'nodefs.available: no pod is chosen: default/honest ranks first, but default/hostile is not fully measured and may use more',
    );
    expect(verdict.next.pods).toBe('nodefs.available');
  });

  it('does not save a pod that is known to free more than that pod, and all that is lacking', () => {
    const cut = pod({ name: 'cut', atLeast: MI, relief: { writtenBytes: known(10 * MI) } });
    expect(victims([honest(50 * MI), cut])).toEqual(['honest']);
    expect(victims([honest(9 * MI), pod({ name: 'cut', atLeast: MI, relief: null })])).toEqual([]);
    // Who declares no directory, and of whom nothing else is known, is no candidate (D14).
    const none = pod({ name: 'none', relief: {} });
    const noDirectory = unknown('not-applicable', 'disk', 'it declares no directory');
    expect(victims([honest(9 * MI), { ...none, usage: { ...none.usage, disk: noDirectory } }])).toEqual(['honest']);
  });

  it.each(['timed-out', 'stale', 'unreadable'] as const)(
    'saves a pod that frees less than is lacking if the walk of another one is %s, not one that frees all of it',
    (why) => {
      const disk = unknown(why, 'disk', 'a walk hangs');
      const hidden: Relief = { bytes: disk, inodes: disk };
      const relief = { scratch: hidden, deletedOpen: hidden, grownLastMinute: hidden };
      const hog = pod({ name: 'hog', relief });
      const unread = { ...hog, usage: { ...hog.usage, disk } };
      expect(looked([unread, honest(10 * MI - 1)]).reasons).toContainEqual({
        code: 'order-unproven',
        signal: 'nodefs.available',
        uid: 'uid-honest',
        against: 'uid-hog',
      });
      expect(victims([unread, honest(10 * MI)])).toEqual(['honest']);
    },
  );

  it.each([
    ['nothing', null],
    ['something', { writtenBytes: known(5 * MI) }],
  ])(
    'saves a pod that frees a byte less than is lacking if %s is known of that pod, not one that frees all of it',
    (_, relief) => {
      const cut = pod({ name: 'cut', atLeast: MI, relief });
      expect(victims([honest(10 * MI - 1), cut])).toEqual([]);
      expect(victims([honest(10 * MI), cut])).toEqual(['honest']);
    },
  );

  it('saves a pod that frees as much as that pod, not one that frees a byte more, if all that counts is known of it', () => {
    const unseen = pod({ name: 'unseen', unwalked: true, relief: { writtenBytes: known(15 * MI) } });
    expect(victims([honest(15 * MI), unseen])).toEqual([]);
    expect(victims([honest(15 * MI + 1), unseen])).toEqual(['honest']);
  });

  it('does not matter for a pod that would rank later whatever it used', () => {
    const database = pod({ name: 'database', priority: 1_000, atLeast: MI, relief: { writtenBytes: known(GI) } });
    expect(victims([honest(MI), database])).toEqual(['honest']);
  });

  it('is marked in the ranking', () => {
    const cut = pod({ name: 'cut', atLeast: 5 * GI, relief: { grownLastMinute: bytes(MI) } });
    const evict = looked([cut, honest(MI)]).decisions.find((decision) => decision.kind === 'evict');
    const marked = evict?.ranking.map(({ values }) => values.flatMap(({ by, isAtLeast }) => (isAtLeast ? [by] : [])));
    expect(marked).toEqual([['usage-over-request'], []]);
  });
});

describe('files that may be those of another pod', () => {
  const first = (relief: number) =>
    pod({ name: 'first', diskBytes: 100 * MI, relief: { grownLastMinute: bytes(relief) } });
  const grew = (most: number) => ({ grownLastMinute: bytes(MI), unattributed: bytes(most) });

  it('put no pod above another, and none below that might use less', () => {
    const linker = pod({ name: 'linker', diskBytes: 50 * MI, unattributedBytes: 60 * MI, relief: grew(20 * MI) });
    const verdict = looked([first(20 * MI), linker]);
    expect(verdict.decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(verdict.reasons).toContainEqual(
      expect.objectContaining({ code: 'order-unproven', uid: 'uid-first', against: 'uid-linker' }),
    );
  });

  it.each([
    ['frees more than the other may', 50 * MI, 60 * MI, 22 * MI, grew(20 * MI)],
    ['uses more than the other may', 30 * MI, 60 * MI, 2 * MI, grew(20 * MI)],
    ['grew, and the other did not, whatever it uses', 50 * MI, GI, MI, {}],
  ])('save no pod that %s', (_, diskBytes, unattributedBytes, relief, theirs) => {
    expect(victims([first(relief), pod({ name: 'linker', diskBytes, unattributedBytes, relief: theirs })])).toEqual([
      'first',
    ]);
  });

  it('count in bytes for bytes alone', () => {
    const relief = { grownLastMinute: inodes(1_000) };
    const linker = pod({ name: 'linker', unattributedBytes: GI, relief: { ...relief, unattributed: inodes(9) } });
    expect(victims([pod({ name: 'first', relief }), linker], 'nodefs.inodesFree')).toEqual(['first']);
  });

  it('make no pod a candidate', () => {
    const linker = pod({ name: 'linker', unattributedBytes: GI, relief: { unattributed: bytes(GI) } });
    expect(victims([linker])).toEqual([]);
    expect(victims([first(MI), linker])).toEqual([]);
  });
});

describe('a pod that goes with all that it has, of which not all is known', () => {
  const atLeast = (name: string, has: number, rest: Partial<Given> = {}) =>
    pod({ name, atLeast: has, relief: { scratch: bytes(has), isAtLeast: true }, isWhole: true, ...rest });
  const whole = (name: string, has: number) =>
    pod({ name, diskBytes: has, relief: { scratch: bytes(has) }, isWhole: true });

  it.each([
    ['was not walked', { unwalked: true as const }],
    ['was walked in part', {}],
  ])('is not evicted for what is not known, and nobody in its place, if it %s', (_, rest) => {
    const verdict = looked([atLeast('a', 0, rest), atLeast('b', 0, rest)]);
    expect(verdict.decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(verdict.reasons.map((reason) => sayReason(reason, (uid) => uid.replace('uid-', 'default/')))).toContain(
      'nodefs.available: no pod is evicted, since none is known to free enough there; default/a is not fully measured',
    );
    expect(looked([whole('known', MI), atLeast('a', 0, rest)]).reasons).toContainEqual({
      code: 'order-unproven',
      signal: 'nodefs.available',
      uid: 'uid-known',
      against: 'uid-a',
    });
  });

  it('is evicted for what is known, if that alone is enough of what is lacking', () => {
    expect(victims([atLeast('a', MI)])).toEqual(['a']);
    expect(victims([atLeast('a', 1024)])).toEqual([]);
  });

  it('saves every pod that frees less than is lacking, and none that frees all of it', () => {
    expect(victims([whole('known', 10 * MI - 1), atLeast('a', 4 * MI)])).toEqual([]);
    expect(victims([whole('known', 10 * MI), atLeast('a', 4 * MI)])).toEqual(['known']);
  });

  it('saves no pod that comes first whatever it uses', () => {
    expect(victims([whole('known', MI), atLeast('a', 0, { priority: 1 })])).toEqual(['known']);
  });

  it('is evicted for 1 % of what is lacking, and not for less than 64 KiB, or 64 inodes', () => {
    const files = (has: number) => [pod({ name: 'a', relief: { scratch: inodes(has) }, isWhole: true })];
    const kib = (has: number) => [whole('a', has * 1024)];
    expect([kib(102), kib(103)].map((has) => victims(has))).toEqual([[], ['a']]);
    expect([kib(63), kib(64)].map((has) => atCrossing('nodefs.available', 4096, has))).toEqual([[], ['a']]);
    expect([files(63), files(64)].map((has) => atCrossing('nodefs.inodesFree', 2_000, has))).toEqual([[], ['a']]);
  });

  it('counts inodes by themselves', () => {
    const files = pod({
      ...{ name: 'a', atLeast: 9 * GI, isWhole: true },
      relief: { scratch: bytes(9 * GI), isAtLeast: true },
    });
    expect(victims([files], 'nodefs.inodesFree')).toEqual([]);
  });
});
