import { describe, expect, it } from 'vitest';
import { createPodLookup } from '../../src/kube/pods/pod-watch.ts';
import { aUid } from './a-kubelet-tree.ts';
import { createVirtualClock } from './virtual-clock.ts';

const pod = (digit: string) => ({ namespace: 'default', name: `pod-${digit}`, uid: aUid(digit) });

describe('running pods that neither list nor watch contains', () => {
  it('are requested by name, each again after 5 s, a few at a time, and only from a server that answers', async () => {
    const clock = createVirtualClock();
    const asked: string[] = [];
    const learned: unknown[] = [];
    let isUp = false;
    const isListDue = false;
    let answer = (): void => undefined;
    const lookUp = createPodLookup({
      clock,
      isUp: () => isUp,
      isListDue: () => isListDue,
      get: (path) => {
        asked.push(path);
        return new Promise((resolve) => {
          const before = answer;
          answer = () => {
            before();
            resolve({ kind: 'answer', status: 200, body: path, retryAfterMs: null });
          };
        });
      },
      asking: (uid) => (object) => learned.push([object, uid]),
      answered: () => undefined,
    });
    lookUp(pod('1'));
    expect(asked).toEqual([]);
    isUp = true;
    for (const digit of ['1', '1', '2', '3', '4', '5', '6']) lookUp(pod(digit));
    expect(asked).toHaveLength(5);
    expect(asked[0]).toBe('/api/v1/namespaces/default/pods/pod-1');
    answer();
    await clock.advance(0);
    expect(learned).toHaveLength(5);
    expect(learned[0]).toEqual([asked[0], aUid('1')]);
    lookUp(pod('1'));
    expect(asked).toHaveLength(5);
    await clock.advance(5_000);
    lookUp(pod('1'));
    expect(asked).toHaveLength(6);
  });

  it('are awaited until the answer, whatever it is, and for 100 ms at most, or until the list; not from a server that is away', async () => {
    const clock = createVirtualClock();
    let isUp = true;
    let isListDue = false;
    let answers = 0;
    let answer = (): void => undefined;
    const lookUp = createPodLookup({
      clock,
      isUp: () => isUp,
      isListDue: () => isListDue,
      get: () =>
        new Promise((resolve) => {
          answer = () => resolve({ kind: 'answer', status: 404, body: null, retryAfterMs: null });
        }),
      asking: () => (object) => expect(object).toBeNull(),
      answered: () => {
        answers += 1;
      },
    });
    expect(lookUp(pod('1'))).toBe(true);
    isUp = false;
    expect(lookUp(pod('1'))).toBe(false);
    isUp = true;
    expect(lookUp(pod('1'))).toBe(true);
    answer();
    await clock.advance(0);
    expect([lookUp(pod('1')), answers]).toEqual([false, 1]);
    expect(lookUp(pod('2'))).toBe(true);
    await clock.advance(100);
    expect(lookUp(pod('2'))).toBe(false);
    isListDue = true;
    expect(lookUp(pod('2'))).toBe(true);
    isUp = false;
    expect(lookUp(pod('2'))).toBe(true);
  });
});
