import { expect, it } from 'vitest';
import { followFencing } from '../../src/guard/follow-fencing.ts';
import { recordData, recordName } from '../../src/guard/records.ts';
import { sayNotFollowed } from '../../src/words/guard-order.ts';
import { createVirtualClock } from '../kube/virtual-clock.ts';
import { aRecord, ID } from './a-guard-api.ts';

const MAP = {
  metadata: { name: recordName(ID), resourceVersion: '1' },
  data: recordData(aRecord({ phase: 'proving' })),
};
const listOf = (items: readonly unknown[]) => ({ metadata: { resourceVersion: '9' }, items });

it.each<[string, readonly unknown[] | null, RegExp]>([
  [
    'was never stored',
    [],
    /^there is no record of the rehearsal: it was not stored, so that nothing of it is done, or /,
  ],
  ['cannot be read', null, /^what becomes of the rehearsal is not known: its record cannot be read; /],
  ['does not go on', [MAP], /^the rehearsal has not gone on for half an hour; /],
])('of a rehearsal whose record %s no more is said than is known', async (_, items, said) => {
  const clock = createVirtualClock();
  let end: unknown = null;
  const get = async () =>
    items === null
      ? ({ kind: 'failed', detail: 'it is away' } as never)
      : ({ kind: 'answer', status: 200, body: listOf(items) } as never);
  void followFencing(ID, { clock, get, namespace: 'nodewarden-guard', stepped: () => undefined }).then((got) => {
    end = got;
  });
  await clock.advance(31 * 60_000);
  expect(sayNotFollowed(String(end))).toMatch(said);
});
