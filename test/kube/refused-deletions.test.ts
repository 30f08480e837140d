import { describe, expect, it } from 'vitest';
import { tellRefusedDeletions } from '../../src/kube/stop/refused-deletions.ts';
import { heardParts } from '../standalone/needs.ts';
import { aClock } from './a-clock.ts';
import { anApi, POD_PATH, status, VICTIM, writesTo } from './an-api.ts';
import { anApiPod } from './an-api-pod.ts';

const DENIED = status(403, 'Forbidden', 'admission webhook "keep.example" denied the request: not now');
const ID = `deletion-refused/${VICTIM.uid}`;
/** A server that answers deletions with `answers`, first to last, then as it would. */
function told(...answers: readonly (ReturnType<typeof status> | 'silence')[]) {
  const left = [...answers];
  const api = anApi((method) => (method === 'DELETE' ? left.shift() : undefined));
  const { findings, present } = heardParts();
  const clock = aClock();
  return { api, clock, present, ...tellRefusedDeletions(writesTo(api), clock, findings) };
}

describe('a deletion that the server refuses', () => {
  it('is a finding that names pod and refusal, until the server accepts it', async () => {
    const { writes, present } = told(DENIED, 'silence', status(503, 'ServiceUnavailable', 'busy'));
    for (let tries = 0; tries < 3; tries++) {
      await writes.deletePod(VICTIM, 1);
      expect(present.get(ID)).toMatch(
        /refused to delete shop\/web-0: admission webhook .* denied.*kubelet may start again/,
      );
    }
    expect(await writes.deletePod(VICTIM, 1)).toEqual({ kind: 'accepted' });
    expect(present.size).toBe(0);
  });
  it('is one also if it is the dry run that is denied, but not if a webhook does not support that', async () => {
    const { writes, present } = told(status(400, 'BadRequest', 'webhook "x" does not support dry run'), DENIED);
    await writes.rehearseDelete(VICTIM, 1);
    expect(present.size).toBe(0);
    await writes.rehearseDelete(VICTIM, 1);
    expect([...present.keys()]).toEqual([ID]);
    // What is only rehearsed is not done.
    await writes.rehearseDelete(VICTIM, 1);
    expect([...present.keys()]).toEqual([ID]);
  });
  it('is none any more once the pod is gone, is being deleted by others, or has ended', async () => {
    const { object } = anApiPod({ api: { object: VICTIM } });
    expect(object).toEqual(VICTIM);
    for (const pods of [[], [{ deletionWallMs: 1 }], [{ phase: 'Failed' as const }]]) {
      const { writes, present, see } = told(DENIED);
      await writes.deletePod(VICTIM, 1);
      see([anApiPod({ api: { object: VICTIM } })]);
      expect(present.size).toBe(1);
      see(pods.map((api) => anApiPod({ api: { object: VICTIM, ...api } })));
      expect(present.size).toBe(0);
    }
    const { writes, present, api } = told(DENIED);
    await writes.deletePod(VICTIM, 1);
    api.pods.delete(POD_PATH);
    await writes.deletePod(VICTIM, 1);
    expect(present.size).toBe(0);
  });
  it('is none any more after 5 minutes in which the server was not asked again', async () => {
    const { writes, present, clock } = told(status(422, 'Invalid', 'no'), DENIED);
    await writes.deletePod(VICTIM, 1);
    await clock.advance(200_000);
    await writes.deletePod(VICTIM, 1);
    await clock.advance(299_000);
    expect(present.size).toBe(1);
    await clock.advance(1_000);
    expect(present.size).toBe(0);
  });
  it('is another finding if a right is missing', async () => {
    const lacking = 'pods "web-0" is forbidden: User "x" cannot delete resource "pods" in API group ""';
    const { writes, present } = told(status(403, 'Forbidden', lacking));
    await writes.deletePod(VICTIM, 1);
    expect(present.size).toBe(0);
  });
});
