import { describe, expect, it } from 'vitest';
import { podSchema } from '../../src/document/pod.ts';

const memory = (value: unknown) =>
  podSchema.parse({
    metadata: { name: 'web' },
    spec: { containers: [{ name: 'main', resources: { requests: { memory: value } } }] },
  }).spec.containers[0]?.resources?.requests?.['memory'];

describe('an amount in a pod', () => {
  it('may have white space around it, as in the API', () => {
    expect(memory(' 64Mi\n')).toEqual(memory('64Mi'));
    expect(() => memory('64 Mi')).toThrow();
  });
});
