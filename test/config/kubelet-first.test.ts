import { describe, expect, it } from 'vitest';
import type { ConfiguredThreshold } from '../../src/config/eviction.ts';
import { kubeletFirsts, kubeletThresholds, readKubeletText } from '../../src/config/kubelet-first.ts';
import { readKubeletFlags } from '../../src/config/kubelet-flags.ts';

const MIB = 1024 ** 2;
const GIB = 1024 * MIB;
const MEMORY = 16 * GIB;
const HARD = (amount: string) => ({ evictionHard: { 'memory.available': amount } });

function thresholds(...maps: object[]): readonly ConfiguredThreshold[] {
  const read = kubeletThresholds(maps as { [name: string]: unknown }[], {});
  if (!read.known) throw new Error(read.detail);
  return read.value;
}
const firsts = (ours: object, theirs: object) =>
  kubeletFirsts(thresholds(ours), thresholds(theirs), (signal) => (signal === 'memory.available' ? MEMORY : null)).map(
    ({ signal, kind, theirs: at, ours: mine }) => ({ signal, kind, theirs: at, ours: mine }),
  );

describe('the command line of a kubelet', () => {
  it('names its file, and thresholds that replace those in the file, in either form', () => {
    const argv = ['/usr/bin/kubelet', '--config=/etc/k.yaml', '--v', '2', '--eviction-hard', 'memory.available<5%'];
    const more = ['--eviction-hard=nodefs.available<1Gi', '--eviction-minimum-reclaim=memory.available=1Gi'];
    expect(readKubeletFlags([...argv, ...more, '--config-dir', '/etc/k.d'])).toEqual({
      config: '/etc/k.yaml',
      configDir: '/etc/k.d',
      fields: {
        evictionHard: { 'memory.available': '5%', 'nodefs.available': '1Gi' },
        evictionMinimumReclaim: { 'memory.available': '1Gi' },
      },
    });
  });
  it('says nothing without any of them', () => {
    expect(readKubeletFlags(['kubelet', '--eviction-hard'])).toEqual({ config: null, configDir: null, fields: {} });
  });
  it('overrides the file, and the files beside it are merged into it', () => {
    const at = (read: ReturnType<typeof kubeletThresholds>) =>
      read.known
        ? read.value.map(({ id, value }) => [id, value.kind === 'quantity' ? value.amount.text : value])
        : read;
    const dropIn = { evictionHard: { 'nodefs.available': '2Gi' } };
    expect(at(kubeletThresholds([HARD('1Gi'), dropIn], {}))).toEqual([
      ['memory.available/evictionHard', '1Gi'],
      ['nodefs.available/evictionHard', '2Gi'],
    ]);
    expect(at(kubeletThresholds([HARD('1Gi'), dropIn], HARD('3Gi')))).toEqual([
      ['memory.available/evictionHard', '3Gi'],
    ]);
  });
  it('is unknown if the kubelet would refuse its own configuration', () => {
    expect(kubeletThresholds([HARD('lots')], {}).known).toBe(false);
    expect(readKubeletText('a: [', 'k.yaml').known).toBe(false);
    expect(readKubeletText('- 1', 'k.yaml').known).toBe(false);
  });
});

describe('whether the kubelet acts first', () => {
  const first = { signal: 'memory.available', kind: 'hard', theirs: GIB };
  it.each([
    ['if its hard threshold is higher', HARD('500Mi'), HARD('1Gi'), [{ ...first, ours: 500 * MIB }]],
    ['if ours does not exceed it by the margin', HARD('1100Mi'), HARD('1Gi'), [{ ...first, ours: 1_100 * MIB }]],
    ['not if it does', HARD('1400Mi'), HARD('1Gi'), []],
    ['if we have none', { evictionHard: { 'pid.available': '10%' } }, HARD('1Gi'), [{ ...first, ours: null }]],
    [
      'if ours is only soft',
      {
        evictionHard: {},
        evictionSoft: { 'memory.available': '4Gi' },
        evictionSoftGracePeriod: { 'memory.available': '10s' },
      },
      HARD('1Gi'),
      [{ ...first, ours: null }],
    ],
  ])('%s', (_what, ours, theirs, expected) => {
    expect(firsts(ours, theirs)).toEqual(expected);
  });
  const SOFT = (amount: string, grace: string, hard = '100Mi') => ({
    ...HARD(hard),
    evictionSoft: { 'memory.available': amount },
    evictionSoftGracePeriod: { 'memory.available': grace },
  });
  it.each([
    ['for a soft threshold whose grace period is less than 15 s longer', SOFT('2Gi', '50s', '1Gi'), 1],
    ['not for one whose grace period is 15 s longer', SOFT('2Gi', '45s', '1Gi'), 0],
    ['not if our hard threshold is higher', HARD('2Gi'), 0],
    ['for a soft threshold that is higher', SOFT('1900Mi', '1s', '1Gi'), 1],
  ])('%s', (_what, ours, count) => {
    expect(firsts(ours, SOFT('2Gi', '60s')).filter(({ kind }) => kind === 'soft')).toHaveLength(count);
  });
  it('also depends on how much it frees', () => {
    const theirs = { ...HARD('1Gi'), evictionMinimumReclaim: { 'memory.available': '2Gi' } };
    expect(firsts(HARD('2Gi'), theirs)).toEqual([
      { signal: 'memory.available', kind: 'reclaim', theirs: 3 * GIB, ours: 2 * GIB },
    ]);
    expect(firsts(HARD('3Gi'), theirs)).toEqual([]);
  });
  it('is not reported for a signal that this node does not have', () => {
    expect(firsts(HARD('2Gi'), { evictionHard: { 'imagefs.available': '50%' } })).toEqual([]);
  });
});
