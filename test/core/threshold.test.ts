import { describe, expect, it } from 'vitest';
import { withContainerfs } from '../../src/core/threshold.ts';
import { aThreshold, GI } from '../a.ts';

describe('thresholds of containerfs', () => {
  it('are never two of one name, even where a soft one written by hand has no grace and is hard', () => {
    const hard = aThreshold('nodefs.available', 10 * GI);
    const soft = aThreshold('nodefs.available', 20 * GI, { graceMs: 30_000 });
    const byHand = {
      ...aThreshold('containerfs.available', 7 * GI),
      id: 'containerfs.available/evictionSoft' as const,
    };
    const copies = withContainerfs([hard, soft, byHand], 'nodefs-only').all.slice(2);
    expect(copies.map(({ id, graceMs, value }) => ({ id, graceMs, value }))).toEqual([
      { id: 'containerfs.available/evictionSoft', graceMs: 0, value: hard.value },
      { id: 'containerfs.available/evictionSoft/twin', graceMs: 30_000, value: soft.value },
    ]);
  });

  it('written by hand twice in one kind are overwritten in the last, as in the kubelet', () => {
    const nodefs = aThreshold('nodefs.available', 10 * GI);
    const first = aThreshold('containerfs.available', 7 * GI);
    const last = { ...first, id: 'containerfs.available/evictionSoft' as const };
    const { all } = withContainerfs([nodefs, first, last], 'nodefs-only');
    expect(all).toEqual([nodefs, first, { ...last, value: nodefs.value }]);
  });
});
