import { describe, expect, it } from 'vitest';
import { readableOf } from '../../src/kube/pods/readable-pod.ts';
import { aV1Pod, NODE } from './pod-store.ts';

const read = (more: Parameters<typeof aV1Pod>[0]) => readableOf(aV1Pod(more), new Set(), NODE);
const container = (resources: unknown) => ({ name: 'main', resources });

describe('a pod with an unreadable part', () => {
  it.each([
    ['a priority beyond its type', { priority: 1e30 }, { priority: true, requests: false }],
    ['a priority that is text', { priority: '1000' }, { priority: true, requests: false }],
    [
      'a request that is no number',
      { containers: [container({ requests: { memory: 'NaN' } })] },
      { priority: false, requests: true },
    ],
    [
      'a negative request',
      { priority: 5, containers: [container({ requests: { memory: '-1Gi' } })] },
      { priority: false, requests: true },
    ],
    ['an overhead', { overhead: { memory: 'x' } }, { priority: false, requests: true }],
    [
      'both',
      { priority: 1.5, containers: [container({ limits: { memory: '' } })] },
      { priority: true, requests: true },
    ],
    ['no specification at all', { containers: 'x' }, { priority: true, requests: true }],
  ])('%s: the rest is known, and the mistake is reported', (_, spec, unsaid) => {
    const { pod, problem } = read({ name: 'x', spec });
    expect(pod).toMatchObject({ value: { declared: { name: 'x', unsaid: { why: 'unreadable', ...unsaid } } } });
    expect(problem).toContain('spec');
  });

  it('is unknown if nobody could name it', () => {
    const { pod } = read({ name: 'x', metadata: { uid: '../../x' } });
    expect(pod.known).toBe(false);
  });

  it('is complete where it can be read, and on another node if the API says so', () => {
    expect(read({ name: 'x' })).toMatchObject({ problem: null });
    expect(read({ name: 'x' }).pod).not.toHaveProperty('value.declared.unsaid');
    expect(read({ name: 'x' }).pod).not.toHaveProperty('value.isElsewhere');
    expect(read({ name: 'x', spec: { nodeName: 'other' } }).pod).toMatchObject({ value: { isElsewhere: true } });
  });
});
