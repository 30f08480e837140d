import { describe, expect, it } from 'vitest';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { createStaleMarks } from '../../src/kube/stop/stale-marks.ts';
import { heardParts } from '../standalone/needs.ts';
import { aClock } from './a-clock.ts';
import { anApi, POD_PATH, status, VICTIM, writesTo } from './an-api.ts';
import { anApiPod } from './an-api-pod.ts';

/** One pod that was marked at the start. */
function aMarked(more: Partial<ApiPod> = {}, api = anApi()) {
  const clock = aClock();
  const marked = { reason: 'EvictionByNodewarden', sinceWallMs: clock.wallMs() } as const;
  const seen = {
    pods: [anApiPod({ api: { object: VICTIM, resourceVersion: '7', marked, ...more } })],
    isCurrent: true,
  };
  const { findings } = heardParts();
  const writes = writesTo(api);
  const marks = createStaleMarks({
    ...{ clock, writes, findings },
    pods: () => seen.pods,
    isCurrent: () => seen.isCurrent,
  });
  marks.see();
  return { api, clock, seen, marks };
}

describe('the mark of a disruption', () => {
  it('is taken back from a pod that lives on for 2 minutes, unless it has changed meanwhile', async () => {
    const { api, clock, seen } = aMarked();
    await clock.advance(119_000);
    expect(api.sent()).toEqual([]);
    seen.isCurrent = false;
    await clock.advance(30_000);
    expect(api.sent()).toEqual([]);
    seen.isCurrent = true;
    await clock.advance(30_000);
    expect(api.sent()).toMatchObject([
      {
        method: 'PATCH',
        path: `${POD_PATH}/status`,
        body: {
          metadata: { uid: VICTIM.uid, resourceVersion: '7' },
          status: { conditions: [{ type: 'DisruptionTarget', status: 'False', reason: 'EvictionByNodewarden' }] },
        },
      },
    ]);
    seen.pods = [];
    await clock.advance(60_000);
    expect(api.sent()).toHaveLength(1);
  });
  it('is tried again if the server does not take that', async () => {
    let conflicts = 1;
    const changed = () => status(409, 'Conflict', 'the object has been modified');
    const { api, clock } = aMarked(
      {},
      anApi((method) => (method === 'PATCH' && conflicts-- > 0 ? changed() : undefined)),
    );
    await clock.advance(150_000);
    expect(api.sent()).toHaveLength(2);
  });
  it.each<[string, Partial<ApiPod>]>([
    ['is being deleted', { deletionWallMs: 1 }],
    ['has ended', { phase: 'Failed' }],
    ['is a mirror pod', { isMirror: true }],
    ['runs on another node', { isElsewhere: true }],
  ])('stays on a pod that %s', async (_, more) => {
    const { api, clock } = aMarked(more);
    await clock.advance(300_000);
    expect(api.sent()).toEqual([]);
  });
  it('is not looked at any more once the agent ends', async () => {
    const { api, clock, marks } = aMarked();
    await clock.advance(100_000);
    marks.close();
    await clock.advance(100_000);
    expect(api.sent()).toEqual([]);
  });
});
