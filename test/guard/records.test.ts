import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { toBeFreed } from '../../src/core/guard/freed.ts';
import type { FencingRecord, StoredRecord } from '../../src/core/guard/record.ts';
import { readRecord, recordData, recordName } from '../../src/guard/records.ts';
import { aPodOn } from '../core/guard/a-machine.ts';
import { aRecord, ID } from './a-guard-api.ts';

const mapOf = (record: unknown, name: string = recordName(ID)): object => ({
  metadata: { name, resourceVersion: '5' },
  data: { record: typeof record === 'string' ? record : JSON.stringify(record) },
});
const FULL: FencingRecord = aRecord({
  ...{ offSent: ['1', '2'], onSent: ['1'], onHeard: ['1', '2'], order: { verb: 'fence', by: 'ann', because: 'smoke' } },
  ...{ proof: { by: 'devices', level: 0 }, staysOff: 'loop', why: 'says-on' },
  freed: {
    pods: [{ namespace: 'a', name: 'db-0', uid: 'u', isMember: true, goneWallMs: 5, readyWallMs: null }],
    volumes: [{ name: 'va', volume: 'pv', goneWallMs: 6 }],
  },
  answers: [{ method: '1', act: 'off', says: 'ok', phase: 'off-sent', wallMs: 1, tookMs: 0.25 }],
});
const LONG = 'x'.repeat(5_000);
const HOSTILE = {
  pods: Array.from({ length: 500 }, () => aPodOn({ namespace: '', name: LONG, uid: LONG })),
  attachments: Array.from({ length: 500 }, () => ({ name: LONG, node: 'w1', driver: '', volume: LONG })),
};
/** What is wrong with it; throws if nothing is. */
function problemOf(stored: StoredRecord | null): string {
  if (stored === null || stored.record !== null) throw new Error('it can be read');
  return stored.problem;
}

describe('a record', () => {
  it.each([
    ['of a fencing', FULL],
    ['with as many names as there can be, and as long', aRecord({ freed: toBeFreed(HOSTILE) })],
    ['of a rehearsal', aRecord({ purpose: 'rehearse', renewed: null })],
    [
      'without any device, as a person confirmed it',
      aRecord({ plan: { isolation: [], levels: [] }, proof: { by: 'person', name: 'ann' } }),
    ],
  ])('%s is read back as it was stored', (_, record) => {
    const map = { metadata: { name: recordName(ID), resourceVersion: '5' }, data: recordData(record) };
    expect(readRecord(map)).toEqual({ id: ID, version: '5', record });
  });

  it('is named after the first 16 hexadecimal digits of the SHA-256 of the uid', () => {
    expect(ID.slice(0, 16)).toBe(createHash('sha256').update('6f2b').digest('hex').slice(0, 16));
  });

  it.each([[{ metadata: { name: 'guard-state' } }], [{ metadata: { name: 'kube-root-ca.crt' } }], [{}], [null], ['x']])(
    'is none of the other ConfigMaps: %j',
    (map) => expect(readRecord(map)).toBeNull(),
  );

  it.each([
    ['its name is none that the guard gives', mapOf(FULL, 'fencing-1')],
    ['its name is none that the guard gives', mapOf(FULL, `fencing-${ID}/../x`)],
    ['it has no record', { metadata: { name: recordName(ID) } }],
    ['it has no record', { metadata: { name: recordName(ID) }, data: { record: 7 } }],
    ['it is not a JSON object', mapOf('{')],
    ['it is not a JSON object', mapOf([FULL])],
    ['it has 65537 bytes, and at most 65536 are read', mapOf(' '.repeat(65_537))],
    ['its id is not that of its name', mapOf({ ...FULL, id: ID.replace('-1', '-2') })],
    ['its node is not that of its name', mapOf({ ...FULL, node: { ...FULL.node, uid: 'another' } })],
    ['its plan has no level 1', mapOf({ ...FULL, level: 1 })],
    ['a method that was used is not one of its plan', mapOf({ ...FULL, offSent: ['3'] })],
    ['a method that was used is not one of its plan', mapOf({ ...FULL, onSent: ['3'] })],
  ])('edited by hand is unreadable: %s', (problem, map) => {
    expect(problemOf(readRecord(map))).toBe(problem);
  });

  it.each([
    ['schema', 2],
    ['phase', 'rebooting'],
    ['phase', 'toString'],
    ['revision', -1],
    ['revision', 1.5],
    ['epoch', 2 ** 31],
    ['epoch', '1'],
    ['writer', ''],
    ['node', { name: 'w1', uid: '6f2b' }],
    ['plan', { isolation: [], levels: ['1'] }],
    ['plan', { isolation: [], levels: [['x'.repeat(2_000)]] }],
    ['offSent', null],
    ['onSent', Array.from({ length: 1_000 }, () => '1')],
    ['renewed', 7],
    ['order', { verb: 'pause', by: 'ann', because: '' }],
    ['order', { verb: 'fence', by: '', because: '' }],
    ['proof', { by: 'time' }],
    ['proof', { by: 'person' }],
    ['proof', {}],
    ['staysOff', 'always'],
    ['isAlive', 'no'],
    ['why', {}],
    ['answers', [{ method: '1' }]],
    ['steps', [{ phase: 'decided', wallMs: '1' }]],
    ['silentMs', null],
  ])('with another %s is unreadable, and says which field: %j', (field, value) => {
    const problem = `its field ${field} is missing, or is none that the guard writes`;
    expect(problemOf(readRecord(mapOf({ ...FULL, [field]: value })))).toBe(problem);
  });

  it('that is unreadable tells its node by its name alone', () => {
    expect(readRecord(mapOf('{'))).toMatchObject({ record: null, nodeKey: ID.slice(0, 16) });
    for (const name of ['fencing-notes', `fencing-${ID}/../x`, `fencing-${ID.toUpperCase()}`, `fencing-x${ID}`]) {
      expect(readRecord(mapOf(FULL, name))).toMatchObject({ record: null, nodeKey: null });
    }
  });

  it('of an earlier version, which did not say what it frees and when it cut, is read all the same', () => {
    const { freed: _, cutWallMs: __, offHeard: ___, onHeard: _____, wasHeard: ____, ...old } = FULL;
    const read = { ...old, freed: null, cutWallMs: null, offHeard: [], onHeard: [], wasHeard: true };
    expect(readRecord(mapOf(old))?.record).toEqual(read);
    expect(readRecord({ metadata: { name: recordName(ID) }, data: recordData(read) })?.record).toEqual(read);
    expect(problemOf(readRecord(mapOf({ ...FULL, freed: { pods: [] } })))).toContain('its field freed ');
  });

  it.each(
    Object.keys(FULL).filter((field) => !['freed', 'cutWallMs', 'offHeard', 'onHeard', 'wasHeard'].includes(field)),
  )('without %s is unreadable', (field) => {
    const { [field as keyof FencingRecord]: _, ...rest } = FULL;
    expect(problemOf(readRecord(mapOf(rest)))).toContain(`its field ${field} `);
  });
});
