import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { kubeletThresholds } from '../../src/config/kubelet-first.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { createBesideKubelet } from '../../src/daemon/beside-kubelet.ts';
import { anObservation } from '../a.ts';
import { aClock } from '../kube/a-clock.ts';
import { heardParts } from '../standalone/needs.ts';

const GIB = 1024 ** 3;
const hard = (amount: string) => ({ evictionHard: { 'memory.available': amount } });
const nothing = unknown('absent', 'x', 'none');

function beside(needs: {
  readonly ours: string;
  readonly configz?: Reading<string>;
  readonly argv?: readonly string[];
  readonly file?: string;
}) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  if (needs.file !== undefined) writeFileSync(`${directory}/kubelet.yaml`, needs.file);
  const clock = aClock();
  const { findings, present } = heardParts();
  const thresholds = kubeletThresholds([hard(needs.ours)], {});
  let configz = needs.configz ?? nothing;
  let isSettled = true;
  const watch = createBesideKubelet({
    ...{ clock, findings },
    mode: { kubeletConfigz: async () => configz, isSettled: () => isSettled },
    effective: () => ({ mode: 'kubelet', kubeletConfig: null, thresholds: thresholds.known ? thresholds.value : [] }),
    find: async () => (needs.argv === undefined ? nothing : known({ argv: needs.argv, cwd: directory })),
  });
  const look = async (afterMs: number): Promise<void> => {
    const sample = { available: 8 * GIB, capacity: 16 * GIB, sampledAtMs: afterMs };
    watch.seen(anObservation(afterMs, { 'memory.available': sample }));
    await clock.advance(0);
  };
  return {
    look,
    present,
    say: (text: string) => {
      configz = known(text);
    },
    settle: (is: boolean) => {
      isSettled = is;
    },
  };
}

describe('the thresholds of the kubelet', () => {
  it('are those that it reports itself, whatever its files say', async () => {
    const { look, present } = beside({
      ours: '1Gi',
      configz: known(JSON.stringify(hard('2Gi'))),
      argv: ['kubelet', '--eviction-hard=memory.available<100Mi'],
    });
    await look(0);
    expect([...present.keys()]).toEqual(['kubelet-first/memory.available/hard']);
    expect([...present.values()][0]).toContain('its hard threshold is 2 GiB (as the kubelet says)');
  });
  it('are searched for once the pods are known, because a choice waits for them', async () => {
    const { look, present, settle } = beside({ ours: '1Gi', configz: known(JSON.stringify(hard('2Gi'))) });
    settle(false);
    await look(0);
    expect([...present.keys()]).toEqual([]);
    settle(true);
    await look(1_000);
    expect([...present.keys()]).toEqual(['kubelet-first/memory.available/hard']);
  });
  it('are those in its file, relative to its working directory, and on its command line', async () => {
    const file = 'kind: KubeletConfiguration\nevictionHard: {memory.available: 3Gi}\n';
    const byFile = beside({ ours: '1Gi', file, argv: ['kubelet', '--config', 'kubelet.yaml'] });
    await byFile.look(0);
    expect([...byFile.present.values()][0]).toContain('3 GiB (by ');
    const argv = ['kubelet', '--config', 'kubelet.yaml', '--eviction-hard', 'memory.available<100Mi'];
    const byFlag = beside({ ours: '1Gi', file, argv });
    await byFlag.look(0);
    expect(byFlag.present.size).toBe(0);
  });
  it('are its defaults if nothing can be read, which is reported', async () => {
    const { look, present } = beside({ ours: '100Mi' });
    await look(0);
    expect([...present.values()]).toEqual([expect.stringContaining('100 MiB (by its defaults)')]);
  });
  it('are queried again, and findings that no longer hold are cleared', async () => {
    const { look, present, say } = beside({ ours: '1Gi', configz: known(JSON.stringify(hard('2Gi'))) });
    await look(0);
    say(JSON.stringify(hard('100Mi')));
    await look(10_000);
    expect(present.size).toBe(1);
    await look(300_000);
    expect(present.size).toBe(0);
  });
});
