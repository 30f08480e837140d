import { expect, it } from 'vitest';
import { createAsked } from '../../src/guard/asked.ts';
import { createWitnesses } from '../../src/guard/witness.ts';
import { until } from '../host/test-cgroup.ts';
import { clock } from './a-guard-api.ts';

it('what was read of a silent node is forgotten when nobody has asked for minutes', async () => {
  let aheadMs = 0;
  let arrivals = 0;
  const arrived = () => void arrivals++;
  const later = { ...clock, monoMs: () => clock.monoMs() + aheadMs };
  const witnesses = createWitnesses({ clock: later, addressesOf: () => [], arrived });
  const body = { metadata: { resourceVersion: '1' }, items: [] };
  const asked = createAsked({
    connection: { get: async () => ({ kind: 'answer', status: 200, body, retryAfterMs: null }) },
    nodes: { byUid: (uid) => ({ object: { name: uid }, hasVolumes: false }) as never },
    ...{ clock: later, witnesses, arrived },
  });
  const ask = (pods: readonly string[], witness: readonly string[]) =>
    asked.ask({ pods, witness, members: [], looks: [], attachments: false });
  ask(['u1', 'u2'], ['u3']);
  await until(() => arrivals === 3);
  expect([...asked.byUid().keys()].sort()).toEqual(['u1', 'u2', 'u3']);
  aheadMs = 200_000;
  ask(['u1'], []);
  aheadMs = 310_000;
  await until(() => arrivals === 4);
  expect([...asked.byUid().keys()]).toEqual(['u1']);
  expect(witnesses.of('u3')).toMatchObject({ known: false, why: 'not-asked' });
  expect(asked.byUid().get('u1')?.pods.known).toBe(true);
});
