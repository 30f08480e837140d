import { describe, expect, it } from 'vitest';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { aConfig, aPod, MI } from '../../a.ts';
import { aCore, hardDisk, hardMemory, hardPids, softMemory, victims } from './a-live-core.ts';

const limitedBy = 'kubelet-evicting';
const requests = { memoryBytes: 400 * MI, ephemeralStorageBytes: 400 * MI };
const within = (more: Parameters<typeof aPod>[0] = {}): PodView =>
  aPod({ name: 'within', workingSetBytes: 300 * MI, requests, limitedBy, ...more });
const over = (more: Parameters<typeof aPod>[0] = {}): PodView =>
  aPod({ name: 'over', workingSetBytes: 200 * MI, limitedBy, ...more });

/** Who is chosen in the looks of 3 s, 100 ms apart. */
function chosen(threshold: typeof hardMemory, pods: readonly PodView[], now: (ms: number) => object): string[] {
  const { look } = aCore(aConfig([threshold]), pods);
  const names: string[] = [];
  for (let ms = 0; ms <= 3_000 && names.length === 0; ms += 100) names.push(...victims(look(ms, now(ms))));
  return names;
}

describe('while the kubelet itself evicts a pod (F6)', () => {
  it('a hard memory threshold chooses a pod that exceeds its request, and waits before it chooses any other', () => {
    expect(chosen(hardMemory, [within(), over()], () => ({ memory: 50 }))).toEqual(['over']);
    expect(chosen(hardMemory, [within()], () => ({ memory: 50 }))).toEqual([]);
    const agent = within({ name: 'agent', limitedBy: 'not-stoppable' });
    expect(chosen(hardMemory, [agent, over()], () => ({ memory: 50 }))).toEqual(['over']);
  });

  it('a protected pod waits, too, even if it exceeds its request: another one is left', () => {
    const kept = over({ isProtected: true });
    expect(chosen(hardMemory, [within(), kept], () => ({ memory: 50 }))).toEqual([]);
    expect(chosen(hardMemory, [within(), kept], (ms) => ({ memory: 90 - ms / 100 }))).toEqual(['within']);
  });

  it('it does not wait if memory would be gone within 10 s', () => {
    expect(chosen(hardMemory, [within()], (ms) => ({ memory: 90 - ms / 100 }))).toEqual(['within']);
    expect(chosen(hardMemory, [within()], (ms) => ({ memory: 90 - ms / 1_000 }))).toEqual([]);
  });

  it('a hard PID threshold chooses a pod that holds as much as is lacking', () => {
    expect(chosen(hardPids, [within({ processes: 900 })], () => ({ pids: 500 }))).toEqual(['within']);
    expect(chosen(hardPids, [within({ processes: 400 })], () => ({ pids: 500 }))).toEqual([]);
  });

  it('disk and soft thresholds wait for what the kubelet frees', () => {
    expect(chosen(hardDisk, [over({ diskBytes: 900 * MI })], () => ({ nodefs: 50 }))).toEqual([]);
    expect(chosen(softMemory, [over()], () => ({ memory: 150 }))).toEqual([]);
  });

  it('a pod that cannot be stopped is still not chosen', () => {
    expect(chosen(hardMemory, [over({ limitedBy: 'not-stoppable' })], () => ({ memory: 50 }))).toEqual([]);
  });
});
