import { describe, expect, it } from 'vitest';
import { type Choice, firstCandidate } from '../../src/core/candidate.ts';
import type { PodView } from '../../src/core/pod.ts';
import { rank } from '../../src/core/rank.ts';
import { unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { aPod, MI } from '../a.ts';

const absent = unknown('absent', 'test', 'no statistics');
const unmeasured = { containers: absent, workingSetBytes: absent };

/** The choice; `guarded` names pods whose owner lost too many. */
function choice(signal: Signal, pods: readonly PodView[], guarded: readonly string[] = []): Choice {
  return firstCandidate(signal, rank(signal, pods, 'nodefs-only'), [], ({ name }) => guarded.includes(name));
}

/** Who goes under memory pressure. */
function victim(pods: readonly PodView[], guarded: readonly string[] = []): string | undefined {
  return choice('memory.available', pods, guarded).victim?.name;
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

  it('takes DaemonSet pods for a signal without requests after all others of their kind, protected or not', () => {
    const agent = aPod({ name: 'agent', isDaemonSet: true, processes: 9 });
    const kept = aPod({ name: 'kept', isProtected: true });
    const keptAgent = aPod({ name: 'kept-agent', isProtected: true, isDaemonSet: true, processes: 9 });
    const web = aPod({ name: 'web' });
    const order = (...pods: readonly PodView[]) => choice('pid.available', pods).victim?.name;
    expect(order(web, kept, agent, keptAgent)).toBe('web');
    expect(order(kept, agent, keptAgent)).toBe('agent');
    expect(order(kept, keptAgent)).toBe('kept');
    expect(order(keptAgent)).toBe('kept-agent');
    expect(choice('pid.available', [kept, keptAgent])).toMatchObject({
      passedOver: [{ uid: keptAgent.uid, because: 'daemonset-within-request' }],
      differences: ['D8', 'D7'],
    });
  });
});
