import { describe, expect, it } from 'vitest';
import { basisOf } from '../../../src/core/pod/basis.ts';
import { known } from '../../../src/core/reading.ts';
import { aConfig, aPod, aThreshold } from '../../a.ts';

describe('what the choice of a pod rests on', () => {
  const config = aConfig([]);
  const web = aPod({ name: 'web' });
  const basis = (declared: Partial<typeof web>, others: readonly (typeof web)[] = []) =>
    basisOf(config, known([...others, { ...web, ...declared }].map((pod) => ({ declared: pod }))), web.uid);

  it.each([
    ['its priority', { priority: 2_000_000_000 }],
    ['that it is critical', { isStaticCritical: true }],
    ['that it is protected', { isProtected: true }],
    ['what it may be evicted for', { evictFor: [] }],
    ['its request', { requests: { memoryBytes: 1, ephemeralStorageBytes: 0 } }],
    ['its grace period', { terminationGraceSeconds: 8 }],
    ['its binding', { boundTo: 'another' }],
    ['what its end does to the machine', { endsMachine: { what: 'FailureAction=reboot of web.service', afterMs: 0 } }],
    ['the priority of a pod that stops with it', { inherited: { priority: 8, from: 'shop/db' } }],
  ])('is another one with %s', (_, declared) => {
    expect(basis(declared)).not.toBe(basis({}));
  });

  it('is the same with a start that is reported later, and with other pods', () => {
    expect(basis({ startedAtWallMs: 7 }, [aPod({ name: 'db' })])).toBe(basis({}));
  });

  it('is the same with another pod of the same priority that stops with it', () => {
    const inheriting = (from: string) => basis({ inherited: { priority: 8, from } });
    expect(inheriting('shop/cache')).toBe(inheriting('shop/db'));
  });

  it('is the same while the time passes that is left of a deletion by others', () => {
    const left = (terminationGraceSeconds: number) =>
      basis({ isTerminating: true, isDeletedByOthers: true, terminationGraceSeconds });
    expect(left(19)).toBe(left(20));
  });

  it('is another one with another threshold', () => {
    const pods = known([{ declared: web }]);
    const other = aConfig([aThreshold('memory.available', 100)]);
    expect(basisOf(other, pods, web.uid)).not.toBe(basisOf(config, pods, web.uid));
    expect(basisOf(aConfig([]), pods, web.uid)).toBe(basisOf(config, pods, web.uid));
  });
});
