import { describe, expect, it } from 'vitest';
import type { Outcome } from '../../../src/core/outcome.ts';
import { sayReason } from '../../../src/words/reason.ts';
import { aConfig, MI } from '../../a.ts';
import { aCore, codes, ended, hardDisk, hardMemory, idOf, sent, victims, writer } from './a-live-core.ts';

/** Writer is evicted for nodefs at 0, with 40 MiB available of 100, and killed at 1,000. */
function evicted(outcome?: (of: string) => Outcome) {
  const core = aCore(aConfig([hardDisk, hardMemory]));
  const of = idOf(core.look(0, { nodefs: 40 }));
  core.lose('writer');
  core.look(1_000, { nodefs: 40, heard: [sent(of, 0, 'sigterm'), sent(of, 1_000, 'sigkill')], emptying: [of] });
  if (outcome !== undefined) core.look(9_000, { nodefs: 40, heard: [outcome(of)], emptying: [of] });
  /** When the next pod is chosen, looking each second; `nodefs` by the second. */
  const nextMs = (nodefs: (second: number) => number, untilSecond: number, from = 10): number | null => {
    for (let second = from; second < 200; second++) {
      const emptying = second < untilSecond ? [of] : [];
      if (victims(core.look(second * 1_000, { nodefs: nodefs(second), emptying })).length > 0) return second;
    }
    return null;
  };
  return { ...core, of, nextMs };
}
const proven = (of: string): Outcome => ({
  of,
  atMs: 9_000,
  kind: 'ended',
  via: 'sigkill',
  releasedBytes: { known: true, value: MI },
});

describe('while the scratch directories of a victim are being emptied', () => {
  it('nobody is chosen as long as bytes come back, nor for 30 s after the last one', () => {
    const { nextMs } = evicted(proven);
    expect(nextMs((second) => 40 + Math.min(second, 80) / 2, 90)).toBe(110);
  });

  it('the next pod is chosen once nothing has come back for 30 s', () => {
    expect(evicted(proven).nextMs((second) => (second < 50 ? 40 + second / 10 : 44.8), 200)).toBe(79);
    expect(evicted(proven).nextMs(() => 40, 200)).toBe(39);
  });

  it('what comes and goes does not count as coming back', () => {
    expect(evicted(proven).nextMs((second) => (second % 2 === 0 ? 40 : 45), 200)).toBe(41);
  });

  it('the next pod is chosen at once if it gets worse than at the proof, but not for a part of what came back', () => {
    expect(evicted(proven).nextMs((second) => (second < 50 ? 40 + second : 60), 200)).toBe(79);
    expect(evicted(proven).nextMs((second) => (second < 50 ? 40 + second : 30), 200)).toBe(50);
  });

  it.each([
    ['its time is over before it is reported to be empty', undefined],
    [
      'it had survived, and ended late',
      (of: string): Outcome => ({ of, atMs: 9_000, kind: 'survived', left: [], detail: 'test' }),
    ],
  ])('nobody is chosen as long as bytes come back if %s', (_, outcome) => {
    expect(evicted(outcome).nextMs((second) => 40 + Math.min(second, 80) / 2, 90)).toBe(110);
  });

  it('nobody is chosen from then on if a survivor ends after somebody could have been', () => {
    const core = aCore(aConfig([hardDisk]), [writer]);
    const of = idOf(core.look(0, { nodefs: 40 }));
    core.terminate('writer');
    core.look(1_000, { nodefs: 40, heard: [{ of, atMs: 1_000, kind: 'survived', left: [], detail: 'test' }] });
    core.look(60_000, { nodefs: 40 });
    expect(codes(core.look(61_000, { nodefs: 40 }))).not.toContain('clean-up-wait');
    expect(codes(core.look(62_000, { nodefs: 40, emptying: [of] }))).toContain('clean-up-wait');
    expect(codes(core.look(91_999, { nodefs: 40, emptying: [of] }))).toContain('clean-up-wait');
    expect(codes(core.look(92_000, { nodefs: 40, emptying: [of] }))).not.toContain('clean-up-wait');
  });

  it('other resources do not wait', () => {
    const { look, of } = evicted(proven);
    expect(victims(look(20_000, { nodefs: 40, memory: 50, emptying: [of] }))).toEqual(['leaker']);
  });

  it('the reason says so, and promises no end of the wait', () => {
    const { look, of } = evicted(proven);
    look(35_000, { nodefs: 50, emptying: [of] });
    const [reason] = look(45_000, { nodefs: 50, emptying: [of] }).reasons.filter(
      ({ code }) => code === 'clean-up-wait',
    );
    expect(reason).toEqual({
      code: 'clean-up-wait',
      signal: 'nodefs.available',
      eviction: of,
      remainingMs: 20_000,
      isEmptying: true,
    });
    expect(reason && sayReason(reason, () => 'x')).toBe(
      `nodefs.available: the scratch directories of eviction ${of} are being emptied and the signal is not getting worse: no other pod is chosen meanwhile, unless nothing comes back for another 20s`,
    );
  });

  it('nothing changes for a victim that was proven without any', () => {
    const core = aCore(aConfig([hardDisk]));
    const of = idOf(core.look(0, { nodefs: 40 }));
    core.lose('writer');
    core.look(1_000, { nodefs: 40, heard: [ended(of, 1_000)] });
    for (let second = 2; second < 31; second++)
      expect(victims(core.look(second * 1_000, { nodefs: 40 + second }))).toEqual([]);
    expect(victims(core.look(31_000, { nodefs: 80 }))).toEqual(['database']);
  });
});
