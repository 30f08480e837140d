import { describe, expect, it } from 'vitest';
import type { Heard } from '../../../src/core/outcome.ts';
import { known } from '../../../src/core/reading.ts';
import { aConfig, aPod, MI } from '../../a.ts';
import { aCore, codes, ended, hardMemory, hardPids, hastened, idOf, sent, softMemory, victims } from './a-live-core.ts';

const requests = { memoryBytes: 100 * MI, ephemeralStorageBytes: 0 };
const unmount = (of: string, atMs: number): Heard => ({ of, atMs, kind: 'signalled', with: 'unmount' });

describe('a dead victim whose memory volumes are not unmounted yet, and that was sent no SIGKILL (D3)', () => {
  /** Memory falls by 20 MiB/s from `memory`, `ms` after its end. */
  const left = (memory: number, ms: number): number => Math.max(0, memory - ms / 50);

  /** The first is dead at 150 ms; it holds so many MiB. */
  const endedUnasked = (holds: number) => {
    const first = aPod({ name: 'first', workingSetBytes: 900 * MI, requests, priority: -10 });
    const core = aCore(aConfig([hardMemory]), [first, aPod({ name: 'hog', workingSetBytes: 600 * MI, requests })]);
    const id = idOf(core.look(0, { memory: 90 }));
    core.terminate('first');
    core.use('first', { workingSetBytes: known(holds * MI) });
    core.look(200, { memory: 90, heard: [unmount(id, 150)] });
    return core;
  };
  /** When the next one is chosen; null: not within 40 s. `fallsMs`: how long memory falls. */
  const nextMs = ({ look }: ReturnType<typeof aCore>, fromMs: number, memory: number, fallsMs = 40_000) => {
    for (let ms = 0; ms < 40_000; ms += 100)
      if (victims(look(fromMs + ms, { memory: left(memory, Math.min(ms, fallsMs)) })).length > 0) return fromMs + ms;
    return null;
  };

  it('is waited for for one second if it ended by itself, and no longer if nothing would be available within 10 s', () => {
    expect(nextMs(endedUnasked(20), 300, 90)).toBe(1_200);
  });

  it('counts as about to be freed for 3 s', () => {
    expect(nextMs(endedUnasked(900), 300, 90)).toBe(3_200);
  });

  it('is waited for for 30 s while memory does not fall', () => {
    expect(nextMs(endedUnasked(900), 300, 90, 0)).toBe(30_200);
  });

  it('was sent no signal, and nobody says that none could be sent', () => {
    const { look } = endedUnasked(900);
    expect(codes(look(30_150, { memory: 5_000 }))).not.toContain('not-signalled');
  });

  describe('after a soft eviction that the kubelet carried out', () => {
    const endedByApi = () => {
      const first = aPod({ name: 'first', workingSetBytes: 20 * MI, requests, priority: -10 });
      const hog = aPod({ name: 'hog', workingSetBytes: 600 * MI, requests });
      const core = aCore(aConfig([hardMemory, softMemory]), [first, hog]);
      core.use('first', { workingSetBytes: known(900 * MI) });
      core.look(0, { memory: 150 });
      const id = idOf(core.look(1_000, { memory: 150 }));
      core.look(1_200, { memory: 150, heard: [sent(id, 1_150, 'sigterm')] });
      core.terminate('first');
      core.use('first', { workingSetBytes: known(20 * MI) });
      core.look(2_000, { memory: 150, heard: [unmount(id, 2_000)] });
      return core;
    };

    it('is waited for for as long under a hard threshold', () => {
      expect(nextMs(endedByApi(), 2_100, 90)).toBe(3_000);
      expect(nextMs(endedByApi(), 2_100, 90, 0)).toBe(32_000);
    });

    it('has no grace period left that a hard threshold would cut', () => {
      const { look } = endedByApi();
      expect([2_100, 2_200].flatMap((ms) => hastened(look(ms, { memory: 80 })))).toEqual([]);
    });
  });

  describe('evicted for process IDs', () => {
    const bomb = (name: string, priority: number, pids: number) => {
      const pod = aPod({ name, priority, processes: pids });
      return { ...pod, usage: { ...pod.usage, pidsHeld: known(pids) } };
    };
    /** The first of two fork bombs is dead at 150 ms, and its volumes are unmounted at 20 s; so many process IDs are left. */
    const nextForPids = (left: (ms: number) => number, unreaped = 0, other = 8_000) => {
      const core = aCore(aConfig([hardPids]), [bomb('first', -10, 9_000), bomb('second', 0, other)]);
      const id = idOf(core.look(0, { pids: 900 }));
      core.look(50, { pids: 900, heard: [sent(id, 20, 'sigterm')] });
      core.terminate('first');
      core.use('first', { processes: known(1), pidsHeld: known(1 + unreaped) });
      core.look(200, { pids: 900, heard: [unmount(id, 150)] });
      for (let ms = 300; ms < 60_000; ms += 100) {
        const heard = ms === 20_000 ? [ended(id, ms)] : [];
        if (victims(core.look(ms, { pids: left(ms), heard })).length > 0) return ms;
      }
      return null;
    };

    it('is waited for as if it held no volume: for 30 s from its death, and not at all while they fall', () => {
      expect(nextForPids(() => 900)).toBe(30_200);
      expect(nextForPids((ms) => Math.max(0, 900 - ms))).toBeLessThan(1_000);
    });

    it('is no reason to evict one that is not to blame while it holds what is lacking by dead processes that nobody reaps', () => {
      expect(nextForPids((ms) => Math.max(500, 900 - ms), 1_000, 10)).toBeNull();
    });

    it('is waited for for as long if they were back for a moment', () => {
      expect(nextForPids((ms) => (ms < 10_000 ? 30_000 : 900))).toBe(30_200);
    });
  });
});
