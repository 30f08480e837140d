import { describe, expect, it } from 'vitest';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { createKubeletEvictions } from '../../src/kube/pods/candidate-limits.ts';
import { aClock } from './a-clock.ts';
import { anApiPod } from './an-api-pod.ts';

const RUNNING = anApiPod({ name: 'web', uid: 'u1' });
const evicted = (evictedWallMs?: number): ApiPod => ({
  ...RUNNING,
  phase: 'Failed',
  isEvictedByKubelet: true,
  ...(evictedWallMs === undefined ? {} : { evictedWallMs }),
});

describe('an eviction by the kubelet is recent for 15 s', () => {
  it('after it became known by the watch, if the kubelet does not say when it was', async () => {
    const clock = aClock();
    const { see, isRecent } = createKubeletEvictions(clock);
    see([RUNNING], true);
    see([evicted()], false);
    await clock.advance(14_000);
    see([evicted()], false);
    expect(isRecent()).toBe(true);
    await clock.advance(1_000);
    expect(isRecent()).toBe(false);
  });
  it('not if a list after an outage shows it, or an earlier run knew the pod', async () => {
    const clock = aClock();
    const { see, isRecent } = createKubeletEvictions(clock);
    see([RUNNING], true);
    await clock.advance(3 * 3_600_000);
    see([evicted()], true);
    expect(isRecent()).toBe(false);
  });
  it.each([true, false])('after the time that the kubelet gives, whatever shows it (listed: %s)', async (isListed) => {
    const clock = aClock();
    const { see, isRecent } = createKubeletEvictions(clock);
    see([evicted(clock.wallMs() - 10_000)], isListed);
    expect(isRecent()).toBe(true);
    await clock.advance(5_000);
    expect(isRecent()).toBe(false);
    see([], false);
    see([evicted(clock.wallMs() - 60_000)], isListed);
    expect(isRecent()).toBe(false);
  });
  it('by the watch alone, if the clock was set back', () => {
    const clock = aClock();
    const listed = createKubeletEvictions(clock);
    listed.see([evicted(clock.wallMs() + 3_600_000)], true);
    const watched = createKubeletEvictions(clock);
    watched.see([evicted(clock.wallMs() + 3_600_000)], false);
    expect([listed.isRecent(), watched.isRecent()]).toEqual([false, true]);
  });
});
