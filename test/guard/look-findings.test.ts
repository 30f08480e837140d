import { describe, expect, it } from 'vitest';
import type { FencingRecord } from '../../src/core/guard/record.ts';
import { known } from '../../src/core/reading.ts';
import { tellOfLooks } from '../../src/guard/look-findings.ts';
import type { Finding } from '../../src/ports.ts';
import { aMemory } from '../core/guard/a-node.ts';
import { aFencing, aLook, aRecord, type Given } from '../core/guard/a-turn.ts';

/** The findings after these looks. */
function found(...looks: readonly Given[]): readonly string[] {
  const findings = new Map<string, string>();
  const tell = tellOfLooks({
    raise: ({ id, text }: Finding) => void findings.set(id, text),
    clear: (id) => void findings.delete(id),
  });
  for (const given of looks) {
    const { state, observation, config } = aLook({ memory: null, ...given });
    const next = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };
    tell({ observation, config, verdict: { state, decisions: [], reasons: [], next } });
  }
  return [...findings.values()];
}

describe('a dry run that is loaded while a node carries the taint', () => {
  const TAINT = { key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' };
  /** Of the guard, or of somebody else. */
  const look = (dryRun: boolean, value: string): Given => ({
    others: [aMemory({ of: { taints: [{ ...TAINT, value }] } })],
    config: { dryRun },
  });
  it('says that nobody removes one of the guard', () => {
    expect(found(look(true, 'nodewarden.w1-1'))).toEqual([
      expect.stringMatching(/^the guard has set w1 out of service, and a dry run neither watches nor ends that: /),
    ]);
    expect(found(look(true, 'nodeshutdown'))).toEqual([]);
    expect(found(look(false, 'nodewarden.w1-1'))).toEqual([]);
    expect(found(look(true, 'nodewarden.w1-1'), look(false, 'nodewarden.w1-1'))).toEqual([]);
  });
});

describe('a dry run that is loaded after an off was sent', () => {
  const off = (record: Partial<FencingRecord>, rest: Given = {}): Given => ({
    memory: {},
    config: { dryRun: true },
    state: { fencings: new Map([['w1-1', aFencing(aRecord({ phase: 'off-sent', offSent: ['vm w1'], ...record }))]]) },
    ...rest,
  });
  const FOUND = [expect.stringMatching(/^the guard has sent power off to w1, and a dry run powers nothing on again: /)];
  it.each<Partial<FencingRecord>>([{}, { phase: 'proving' }, { phase: 'untainting' }, { phase: 'failed' }])(
    'says that nobody powers it on again: %j',
    (record) => {
      expect(found(off(record))).toEqual(FOUND);
    },
  );
  it.each<[string, Given]>([
    ['it is armed', off({}, { config: {} })],
    ['none was sent', off({ offSent: [] })],
    ['an on was sent since', off({ phase: 'on-sent', onSent: ['vm w1'] })],
    ['it is to stay off anyway', off({ staysOff: 'loop' })],
    ['it was left off', off({ phase: 'left-off' })],
    ['it lives', off({}, { memory: { lease: { renewed: 'r2', durationMs: 40_000 } } })],
    ['its Node was deleted', off({}, { memory: null })],
  ])('does not if %s', (_, given) => {
    expect(found(off({}), given)).toEqual([]);
  });
});

describe('a node with the taint of a fencing', () => {
  const taints = [{ key: 'node.kubernetes.io/out-of-service', value: 'nodewarden.w1-1', effect: 'NoExecute' }];
  const look = (
    atMs: number,
    rest: Parameters<typeof aMemory>[0],
    record: Partial<FencingRecord> | null = {},
  ): Given => ({
    ...{ atMs, others: [aMemory({ of: { taints, ...rest?.of }, ...rest })] },
    ...(record === null
      ? {}
      : { state: { fencings: new Map([['w1-1', aFencing(aRecord({ phase: 'tainted', ...record }))]]) } }),
  });
  const of = (renewed: string) => ({ lease: { renewed, durationMs: 40_000 } });
  const FOUND = [expect.stringMatching(/^out of service by the guard, .* shows life: w1\. /)];
  it.each<[string, Parameters<typeof aMemory>[0], Partial<FencingRecord> | null]>([
    ['it has renewed its lease since', of('r2'), {}],
    ['it has booted since', { of: { taints, bootId: 'boot-2' } }, {}],
    ['it was seen to live, and is silent again', { isSuspect: true }, { phase: 'untainting', isAlive: true }],
    ['it lives, and no record is there', {}, null],
  ])('is named if %s, and the taint stays', (_, rest, record) => {
    const [first, soon, late] = [0, 14_999, 15_000].map((atMs) => look(atMs, rest, record)) as [Given, Given, Given];
    expect(found(first, soon)).toEqual([]);
    expect(found(first, soon, late)).toEqual(FOUND);
    expect(found(first, late, look(16_000, { ...rest, of: { taints: [] } }, record))).toEqual([]);
  });
  it.each<[string, Parameters<typeof aMemory>[0], Partial<FencingRecord> | null]>([
    ['it was not heard since its proof, though it is not suspect yet', of('r1'), {}],
    ['it is silent, and no record is there', { isSuspect: true }, null],
    ['it was never heard, and no record is there', { signMs: null }, null],
  ])('is not, if %s', (_, rest, record) => {
    expect(found(look(0, rest, record), look(60_000, rest, record))).toEqual([]);
  });
});

describe('a record whose times are ahead of the own clock', () => {
  const { wallMs } = aLook().observation;
  const stored = (id: string, aheadMs: number) => ({
    ...{ id, version: '1' },
    record: aRecord({ id, phase: 'closed', steps: [{ phase: 'closed', wallMs: wallMs + aheadMs }] }),
  });
  const look = (...records: readonly ReturnType<typeof stored>[]): Given => ({ seen: { records: known(records) } });
  it('is named, with the most by which one is ahead, until none is', () => {
    const ahead = look(stored('w1-1', 7_200_000), stored('w2-1', 61_000), stored('w3-1', 60_000), stored('w4-1', -1));
    expect(found(ahead)).toEqual([
      expect.stringMatching(/ \(w1-1, w2-1\) are up to 2h0m0s ahead of this machine's clock: /),
    ]);
    expect(found(ahead, look(stored('w1-1', 0)))).toEqual([]);
  });
});
