import { describe, expect, it } from 'vitest';
import type { FreedPod } from '../../src/core/guard/record.ts';
import { unknown } from '../../src/core/reading.ts';
import { guardLiveJson } from '../../src/guard/live.ts';
import type { GuardLook } from '../../src/guard/loop.ts';
import type { GuardLive } from '../../src/guard/shown.ts';
import { aFencing, aLook, aRecord, type Given } from '../core/guard/a-turn.ts';

const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };
/** The status is made elsewhere, and handed on as it is. */
const STATUS = {} as GuardLive['status'];

function liveOf(given: Given, more: (look: GuardLook) => GuardLook = (look) => look): GuardLive {
  const { state, observation, config } = aLook(given);
  const look = more({ observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } });
  return JSON.parse(guardLiveJson(look, { nowWallMs: 0, status: STATUS }) ?? 'null');
}
const fencings = (count: number, pods: readonly FreedPod[] = []) =>
  new Map(
    Array.from({ length: count }, (_, i) => {
      const steps = [{ phase: 'tainted', wallMs: i }] as const;
      const record = aRecord({ id: `w1-${i}`, phase: 'tainted', steps, freed: { pods, volumes: [] } });
      return [record.id, aFencing(record)] as const;
    }),
  );

describe('what the page of a guard gets', () => {
  it('has the last of many fencings, and says how many are left out', () => {
    const { fencings: shown } = liveOf({ state: { fencings: fencings(25) } });
    expect([shown.rows.length, shown.leftOut, shown.rows[0]?.record.id]).toEqual([20, 5, 'w1-24']);
  });
  it('shows one that a person must look at before any other', () => {
    const stuck = aFencing(aRecord({ id: 'stuck', phase: 'stuck', steps: [{ phase: 'stuck', wallMs: -1 }] }));
    const { fencings: shown } = liveOf({ state: { fencings: new Map([...fencings(25), ['stuck', stuck]]) } });
    expect(shown.rows[0]?.record.id).toBe('stuck');
  });
  it('has fewer rows if names are so long that it would be too large', () => {
    const pods = Array.from({ length: 40 }, (_, i) => ({
      ...{ namespace: 'x'.repeat(1_000), name: 'x'.repeat(1_000), uid: `${i}`, isMember: false },
      ...{ goneWallMs: null, readyWallMs: null },
    }));
    const live = liveOf({ state: { fencings: fencings(30, pods) } });
    expect([live.fencings.rows.length, live.fencings.leftOut]).toEqual([2, 28]);
  });
  it('says why the records are not known, and does not say that there are none', () => {
    const { past } = liveOf({}, (look) => ({
      ...look,
      observation: { ...look.observation, records: unknown('unreadable', 'configmaps', 'the server said 403') },
    }));
    expect(past).toBe('the server said 403');
  });
  it('counts failure domains by a label with the name of what every object has', () => {
    const labels = { constructor: 'rack-1' };
    const { domains } = liveOf({ config: { domainLabels: ['constructor', '__proto__'] }, memory: { of: { labels } } });
    expect(domains.map(({ label, rows }) => [label, rows.map(({ value }) => value)])).toEqual([
      ['constructor', ['rack-1']],
      ['__proto__', ['']],
    ]);
  });
});
