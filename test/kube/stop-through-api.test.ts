import { expect, it } from 'vitest';
import { createStopThroughApi } from '../../src/kube/stop-through-api.ts';
import { heardParts } from '../standalone/needs.ts';
import { aClock } from './a-clock.ts';
import { anApi, status, VICTIM, writesTo } from './an-api.ts';

it('a missing right to mark a pod before its deletion is a finding until it is granted, and the pod is deleted', async () => {
  let isForbidden = true;
  const api = anApi((method) => (method === 'PATCH' && isForbidden ? status(403, 'Forbidden', 'no') : undefined));
  const { findings, present } = heardParts();
  const { remove } = createStopThroughApi({
    ...{ clock: aClock(), writes: writesTo(api), findings, isAway: () => false, isBudgetRequired: false },
    later: async () => undefined,
    heard: () => undefined,
  });
  const pod = { object: VICTIM, isMirror: false };
  expect(await remove(pod, 5)).toMatchObject({ kind: 'accepted' });
  expect([...present.keys()]).toEqual(['api-right/patch pods/status']);
  isForbidden = false;
  await remove(pod, 5);
  expect([...present.keys()]).toEqual([]);
});
