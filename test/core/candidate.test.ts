import { describe, expect, it } from 'vitest';
import { firstCandidate } from '../../src/core/candidate.ts';
import type { PodView } from '../../src/core/pod.ts';
import { rank } from '../../src/core/rank.ts';
import { unknown } from '../../src/core/reading.ts';
import { aPod, MI } from '../a.ts';

const absent = unknown('absent', 'test', 'no statistics');
const unmeasured = { containers: absent, workingSetBytes: absent };

/** Who goes under memory pressure; `guarded` names pods whose owner lost too many. */
function victim(pods: readonly PodView[], guarded: readonly string[] = []): string | undefined {
  const ranking = rank('memory.available', pods, 'nodefs-only');
  return firstCandidate('memory.available', ranking, [], ({ name }) => guarded.includes(name)).victim?.name;
}

describe('the choice among the ranked', () => {
  it('leaves a DaemonSet pod without statistics alone, since nothing shows that it exceeds its request', () => {
    const agent = aPod({ name: 'agent', isDaemonSet: true, usage: unmeasured });
    const web = aPod({ name: 'web', workingSetBytes: MI });
    expect(victim([agent, web])).toBe('web');
    expect(victim([agent])).toBe(undefined);
  });

  it('takes any other pod without statistics first, as the kubelet does', () => {
    const fresh = aPod({ name: 'fresh', usage: unmeasured });
    const web = aPod({ name: 'web', workingSetBytes: MI });
    expect(victim([web, fresh])).toBe('fresh');
  });

  it('lets a guarded pod give way to one that is seen above its request, not to one without statistics', () => {
    const loop = aPod({ name: 'loop', priority: -1, usage: unmeasured });
    const fresh = aPod({ name: 'fresh', usage: unmeasured });
    const web = aPod({ name: 'web', workingSetBytes: MI });
    expect(victim([loop, fresh, web], ['loop'])).toBe('web');
    expect(victim([loop, fresh], ['loop'])).toBe('loop');
  });
});
