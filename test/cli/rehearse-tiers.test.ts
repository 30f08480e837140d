import { describe, expect, it } from 'vitest';
import { rehearseText } from '../../src/cli/rehearse-text.ts';
import { aPod } from '../a.ts';
import { CRITICAL, config, rehearsed, web } from './a-rehearsal.ts';

const beside = { ...config, tiers: { announceMs: 2_000, confirmMs: 10_000 } };
const daemon = aPod({ name: 'daemon', leaves: 'with-agent' });
const etcd = aPod({ name: 'etcd', leaves: 'last' });
const plain = (_: string, text: string): string => text;
const names = (phases: readonly { readonly pods: readonly { readonly name: string }[] }[] = []) =>
  phases.map(({ pods }) => pods.map(({ name }) => name));

describe('a rehearsal beside a kubelet', () => {
  it('shows which pods are deleted, and which are stopped with the agent afterwards', () => {
    const report = rehearsed({ config: beside, pods: [web, daemon, etcd] });
    expect(report.neededMs).toBe(42_000);
    expect(names(report.phases)).toEqual([['web'], []]);
    expect(names(report.withAgent)).toEqual([['daemon'], ['etcd']]);
    const text = rehearseText(report, 'durations', plain);
    expect(text).toContain('what stays bound to the node, when systemd stops the agent after the kubelet');
    expect(text).toContain('no pod is known to need more time than it gets (3 pods)');
  });

  it('says how long the lock may be held, which is longer than the phases: no longer than logind grants', () => {
    const total = (grantedMs: number) => {
      const lock = { kind: 'armed', neededMs: 42_000, grantedMs, provenAgoMs: 0 } as const;
      const text = rehearseText(rehearsed({ config: beside, status: { lock } }), 'durations', plain);
      return text.match(/in total .*/)?.[0];
    };
    expect(total(45_000)).toBe(
      'in total    20s at most in the phases; with the cordon before them and the confirmation after them, the lock is held for 42s at most',
    );
    expect(total(40_000)).toMatch(/in the phases; .* held for 40s at most$/);
  });

  it('shows the time that systemd leaves for pods that stay', () => {
    const status = { stopTimeoutMs: 15_000 };
    const report = rehearsed({ config: beside, pods: [daemon], status });
    expect(report.withAgent?.[0]?.pods[0]?.getsMs).toBe(10_000);
    expect(report.changes.map(({ what }) => what)).toContain('phase');
  });

  it('names each phase once with what to set, the most that either of its pods needs', () => {
    const slow = aPod({ name: 'slow', leaves: 'with-agent', terminationGraceSeconds: 300 });
    const slower = aPod({ name: 'slower', terminationGraceSeconds: 400 });
    const phases = rehearsed({ config: beside, pods: [slow, slower] }).changes.filter(({ what }) => what === 'phase');
    expect(phases).toMatchObject([{ phase: 1, seconds: 400 }]);
  });

  it('names pods that serve to the end, and a CSI plugin that stops no later than pods that use it', () => {
    const rude = aPod({ name: 'rude', traits: ['serves-to-the-end'], terminationGraceSeconds: 5 });
    const calm = aPod({ name: 'calm', traits: ['serves-to-the-end'] });
    const user = aPod({ name: 'user', traits: ['uses-volumes'], leaves: 'with-agent' });
    const csi = aPod({ name: 'csi', traits: ['csi-plugin'], leaves: 'with-agent' });
    const { notes } = rehearsed({ config: beside, pods: [rude, calm, user, csi] });
    expect(notes.filter((note) => note.includes('serves'))).toEqual([expect.stringContaining('default/rude serves')]);
    expect(notes.filter((note) => note.includes('CSI'))).toEqual([expect.stringContaining('default/csi looks like')]);
    const later = rehearsed({ config: beside, pods: [user, { ...csi, priority: CRITICAL }] });
    expect(later.notes).toEqual([]);
  });
});
