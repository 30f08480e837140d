import { describe, expect, it } from 'vitest';
import { stepFencings } from '../../../src/core/guard/fencings.ts';
import { toBeFreed } from '../../../src/core/guard/freed.ts';
import type { Fencing } from '../../../src/core/guard/state.ts';
import { stepTurns } from '../../../src/core/guard/turns.ts';
import { known } from '../../../src/core/reading.ts';
import { aPodOn } from './a-machine.ts';
import { aFencing, aLook, aRecord, elected, type Given, SINCE, turnRows, WALL } from './a-turn.ts';

const OLD = aPodOn({ name: 'db-0', uid: 'old' });
const WEB = aPodOn({ name: 'web', uid: 'web', ownerKind: 'ReplicaSet' });
const VOLUME = { name: 'va', node: 'w1', driver: 'csi', volume: 'pv' };
const TO_FREE = toBeFreed({ pods: [OLD, WEB], attachments: [VOLUME] });
const tainted = { phase: 'tainted', freed: TO_FREE, steps: [{ phase: 'tainted', wallMs: WALL + SINCE }] } as const;

type Fenced = Given & { readonly fencing?: Partial<Fencing> };
/** Its pods and volumes after one look, as far as they were seen: `db-0 gone ready`. */
function seen({ fencing, record, ...given }: Fenced): readonly string[] {
  const { state, observation } = aLook(given);
  const before = aFencing(aRecord({ ...tainted, ...record }), { freedSinceMs: SINCE, ...fencing });
  const { fencings } = stepFencings({ ...state, fencings: new Map([[before.record.id, before]]) }, observation);
  const freed = fencings.get(before.record.id)?.record.freed ?? null;
  if (freed === null) return ['not known'];
  const at = (wallMs: number | null, what: string, isBy: true | undefined): string =>
    wallMs === null ? '' : ` ${what} ${isBy ? 'by ' : ''}${wallMs - WALL - SINCE}`;
  return [
    ...freed.pods.map(
      ({ name, goneWallMs, isGoneBy, readyWallMs, isReadyBy }) =>
        name + at(goneWallMs, 'gone', isGoneBy) + at(readyWallMs, 'ready', isReadyBy),
    ),
    ...freed.volumes.map(({ volume, goneWallMs, isGoneBy }) => volume + at(goneWallMs, 'gone', isGoneBy)),
  ];
}
const member = (uid: string, isReady: boolean) => ({ namespace: 'default', name: 'db-0', uid, isReady });

describe('what a fencing frees', () => {
  it('is seen to go from its node, one after the other', () => {
    expect(seen({ pods: [OLD, WEB], attachments: [VOLUME] })).toEqual(['db-0', 'web', 'pv']);
    expect(seen({ pods: [WEB], attachments: [VOLUME] })).toEqual(['db-0 gone 10000', 'web', 'pv']);
    expect(seen({ pods: [], attachments: [] })).toEqual(['db-0 gone 10000', 'web gone 10000', 'pv gone 10000']);
  });
  it('is seen to come back by a Ready pod of its name that is another one', () => {
    const given = { pods: [OLD, WEB], attachments: [VOLUME] };
    expect(seen({ ...given, members: [member('old', true)] })[0]).toBe('db-0');
    expect(seen({ ...given, members: [member('new', false)] })[0]).toBe('db-0');
    expect(seen({ ...given, members: [member('new', true)] })[0]).toBe('db-0 ready 10000');
    expect(seen({ ...given, members: [{ ...member('new', true), namespace: 'other' }] })[0]).toBe('db-0');
  });
  it('comes back as one of several members', () => {
    const given = { pods: [OLD, WEB], attachments: [VOLUME] };
    const other = { ...member('new', true), name: 'db-1' };
    expect(seen({ ...given, members: [other] })[0]).toBe('db-0');
    expect(seen({ ...given, members: [other, member('new', true)] })[0]).toBe('db-0 ready 10000');
  });
  it('keeps the first time', () => {
    const [db] = TO_FREE.pods;
    const pods = db === undefined ? [] : [{ ...db, goneWallMs: WALL + SINCE, readyWallMs: WALL + SINCE + 1 }];
    const record = { freed: { pods, volumes: TO_FREE.volumes } };
    const given = { pods: [], attachments: [], members: [member('new', true)] };
    expect(seen({ record, ...given })).toEqual(['db-0 gone 0 ready 1', 'pv gone 10000']);
  });
  it('is not known where nothing was read, or only before this step', () => {
    expect(seen({ pods: null, attachments: [VOLUME] })).toEqual(['db-0', 'web', 'pv']);
    expect(seen({ seen: { asked: new Map() }, attachments: [VOLUME] })).toEqual(['db-0', 'web', 'pv']);
    expect(seen({ pods: [], attachments: [], fencing: { sinceMs: SINCE + 10_001 } })).toEqual(['db-0', 'web', 'pv']);
  });
  it('may have gone long ago for who has just taken over, or leads again', () => {
    const given = { pods: [], attachments: [], members: [member('new', true)] };
    const BY = ['db-0 gone by 10000 ready by 10000', 'web gone by 10000', 'pv gone by 10000'];
    expect(seen({ ...given, fencing: { isTakenOver: true, freedSinceMs: null } })).toEqual(BY);
    expect(seen({ ...given, ...elected(5_000) })).toEqual(BY);
    expect(seen({ ...given, ...elected(10_001) })).toEqual(['db-0', 'web', 'pv']);
    expect(seen({ ...given, ...elected(5_000), fencing: { freedSinceMs: SINCE + 6_000 } })[2]).toBe('pv gone 10000');
  });
  it('is not known of a record that an earlier version wrote, and is not made up', () => {
    const members = [member('new', true)];
    expect(seen({ record: { freed: null }, pods: [], attachments: [], members })).toEqual(['not known']);
    expect(lookedFor({ record: { freed: null } })).toEqual([]);
  });
  it('is not looked for before the taint, nor after its end', () => {
    for (const phase of ['proven', 'closed'] as const)
      expect(seen({ record: { phase }, pods: [], attachments: [] })).toEqual(['db-0', 'web', 'pv']);
  });
  it.each(['untainting', 'on-sent', 'booting', 'left-off', 'not-back'] as const)('is looked for when %s', (phase) => {
    expect(seen({ record: { phase }, pods: [], attachments: [] })[0]).toBe('db-0 gone 10000');
  });
  it('is noted for 20 pods and 20 volumes, and names of 253 characters', () => {
    const long = 'n'.repeat(254);
    const list = <T>(one: T): readonly T[] => Array.from({ length: 21 }, () => one);
    const attachments = list({ ...VOLUME, name: long, volume: long });
    const { pods, volumes } = toBeFreed({
      pods: list(aPodOn({ namespace: long, name: long, uid: long })),
      attachments,
    });
    expect([pods.length, volumes.length]).toEqual([20, 20]);
    const [pod, volume] = [pods[0], volumes[0]];
    const names = [pod?.namespace, pod?.name, pod?.uid, volume?.name, volume?.volume];
    expect(names.map((name) => name?.length)).toEqual([253, 253, 253, 253, 253]);
  });
});

/** Whom the guard looks for at its next look. */
function lookedFor({ fencing, record, ...given }: Fenced): readonly string[] {
  const look = aLook(given);
  const one = aFencing(aRecord({ ...tainted, ...record }), fencing);
  const state = { ...look.state, fencings: new Map([[one.record.id, one]]) };
  const { wanted } = stepTurns({ state, decisions: [], reasons: [] }, { ...look, state });
  return wanted.members.flatMap(({ node, pods }) => pods.map(({ namespace, name }) => `${node} ${namespace}/${name}`));
}

describe('a member of a StatefulSet', () => {
  const MINUTE = 60_000;
  it('is looked for from the taint on until its successor is Ready, every 10 s, for 15 minutes', () => {
    expect(lookedFor({})).toEqual(['uid-w1 default/db-0']);
    expect(lookedFor({ members: [] })).toEqual([]);
    expect(lookedFor({ atMs: 15 * MINUTE, record: { phase: 'left-off' } })).toEqual(['uid-w1 default/db-0']);
    expect(lookedFor({ atMs: 15 * MINUTE + 1, record: { phase: 'left-off' } })).toEqual([]);
    const pods = TO_FREE.pods.map((pod) => ({ ...pod, readyWallMs: WALL }));
    expect(lookedFor({ record: { freed: { ...TO_FREE, pods } } })).toEqual([]);
    expect(lookedFor({ record: { phase: 'proving' } })).toEqual([]);
    expect(lookedFor({ seen: { asked: new Map() } })).toEqual(['uid-w1 default/db-0']);
    const decided = { phase: 'decided', wallMs: WALL } as const;
    expect(lookedFor({ record: { phase: 'left-off', steps: [decided] } })).toEqual([]);
    const atMs = 15 * MINUTE;
    expect(lookedFor({ atMs, record: { phase: 'left-off', steps: [decided, ...tainted.steps] } })).toHaveLength(1);
    expect(lookedFor({ fencing: { isTakenOver: true } })).toEqual(['uid-w1 default/db-0']);
  });
});

it('a member is looked for again after 10 s', () => {
  const askedAgo = (agoMs: number) => {
    const { asked } = aLook({ atMs: 60_000 - agoMs, members: [] }).observation;
    return lookedFor({ atMs: 60_000, seen: { asked }, said: {} });
  };
  expect([askedAgo(9_999), askedAgo(10_000)]).toEqual([[], ['uid-w1 default/db-0']]);
});

describe('a machine that stays off', () => {
  const rows = turnRows();
  const stored = (freed: typeof TO_FREE) =>
    ({ seen: { records: known([{ id: 'w1-1', version: '1', record: aRecord({ freed }) }]) } }) as const;
  const beside = (freed: typeof TO_FREE) => {
    const others = { id: 'w0-1', version: '1', record: aRecord({ freed: TO_FREE }) };
    return { seen: { records: known([others, { id: 'w1-1', version: '1', record: aRecord({ freed }) }]) } };
  };
  const more = { ...TO_FREE, volumes: TO_FREE.volumes.map((volume) => ({ ...volume, goneWallMs: WALL })) };
  rows('left-off', { freed: more }, [
    ['has stored what was seen since', { atMs: 30_000, ...stored(TO_FREE) }, '> left-off'],
    ['not at once', { atMs: 29_999, ...stored(TO_FREE) }, 'stays'],
    ['and once', { atMs: 30_000, ...stored(more) }, 'stays'],
    ['also beside records of others', { atMs: 30_000, ...beside(more) }, 'stays'],
  ]);
});
