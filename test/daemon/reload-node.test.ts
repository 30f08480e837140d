import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import { MI } from '../a.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { clock, directory, running, until, write } from './a-daemon.ts';

/** A node of so much memory. */
function aNode(mib: number): TestCgroup {
  const node = makeCgroup();
  const limit = mounts?.version === 2 ? 'memory.max' : 'memory.limit_in_bytes';
  writeFileSync(`${mounts?.memory}${node.path}/${limit}`, String(mib * MI));
  return node;
}

function declare(name: string): void {
  const text = `apiVersion: v1
kind: Pod
metadata: { name: ${name}, annotations: { nodewarden.dev/cgroup: ${name} } }
spec: { containers: [{ name: a }] }
`;
  writeFileSync(join(directory, 'pods.d', `${name}.yaml`), text);
}

describe.skipIf(needsCgroups !== '')(`a reload with pods in cgroups ${needsCgroups}`, () => {
  it('does not judge the old node by the thresholds of the new one', async () => {
    const [small, large] = [aNode(300), aNode(2_000)];
    try {
      const innocent = await small.child('web');
      mkdirSync(`${mounts?.memory}${large.path}/web`);
      declare('web');
      const at = (root: string, least: string) =>
        write([`cgroupRoot: ${root}`, `evictionHard: { memory.available: "${least}" }`]);
      at(small.path, '20Mi');
      await running(async (report) => {
        await until(report, (now) => now.pods.known && now.pods.order.length === 1);
        at(large.path, '500Mi');
        const there = await until(report, (now) => now.node.cgroupRoot === large.path);
        expect(there.config.lastReload).toMatchObject({ ok: true });
      });
      expect(innocent.isAlive()).toBe(true);
    } finally {
      await small.remove();
      await large.remove();
    }
  });

  it.each([
    ['another node', '500Mi'],
    ['another value of the threshold', '400Mi'],
  ])('counts a soft grace period anew for %s', async (what, least) => {
    const [one, two] = [aNode(300), aNode(310)];
    const then = what === 'another node' ? two : one;
    try {
      await then.child('web');
      declare('web');
      const at = (root: string, least: string) =>
        write([
          `cgroupRoot: ${root}`,
          `evictionSoft: { memory.available: "${least}" }`,
          'evictionSoftGracePeriod: { memory.available: "3s" }',
          'evictionHard: { memory.available: "1Mi" }',
        ]);
      at(one.path, '500Mi');
      let changedMs = Number.POSITIVE_INFINITY;
      const sinceMs: number[] = [];
      await running(
        async (report) => {
          await until(report, (now) => now.reasons.some(({ code }) => code === 'grace-running'));
          await sleep(clock, 300);
          changedMs = clock.monoMs();
          at(then.path, least);
          await until(report, () => sinceMs.length > 0);
        },
        (entry) => {
          if (entry.kind === 'decision' && entry.decision.kind === 'evict')
            sinceMs.push(entry.decision.threshold.sinceMs);
        },
      );
      expect(sinceMs[0]).toBeGreaterThan(changedMs);
    } finally {
      await one.remove();
      await two.remove();
    }
  });

  it.each(['off', 'on and off again'])(
    'with dry run switched %s together with a threshold does what it says',
    async (how) => {
      const node = aNode(300);
      try {
        const victim = await node.child('web');
        declare('web');
        const config = (least: string) => [
          `cgroupRoot: ${node.path}`,
          `evictionHard: { memory.available: "${least}" }`,
        ];
        const isSwitchedOff = how === 'off';
        write([...config('20Mi'), ...(isSwitchedOff ? ['dryRun: true'] : [])]);
        const ends: (readonly [boolean, string])[] = [];
        await running(
          async (report) => {
            await until(report, (now) => now.pods.known && now.pods.order.length === 1);
            if (!isSwitchedOff) {
              write([...config('500Mi'), 'dryRun: true']);
              await until(report, () => ends.length > 0);
              expect(victim.isAlive()).toBe(true);
            }
            write(config('500Mi'));
            await until(report, () => ends.some(([, kind]) => kind === 'ended'));
          },
          (entry) => {
            if (entry.kind === 'outcome') ends.push([entry.dry, entry.outcome.kind]);
          },
        );
        expect(victim.isAlive()).toBe(false);
        expect(ends).toEqual([...(isSwitchedOff ? [] : [[true, 'dropped']]), [false, 'ended']]);
      } finally {
        await node.remove();
      }
    },
  );

  it('with dry run switched on while an eviction begins, and off again later, evicts', async () => {
    const node = aNode(300);
    try {
      const victim = await node.child('web');
      declare('web');
      const config = (...more: readonly string[]) =>
        write([
          `cgroupRoot: ${node.path}`,
          'evictionSoft: { memory.available: "500Mi" }',
          'evictionSoftGracePeriod: { memory.available: "100ms" }',
          'evictionHard: { memory.available: "1Mi" }',
          'preKill: { command: [/bin/sleep, "3"], timeout: 4s }',
          ...more,
        ]);
      config();
      const ends: string[] = [];
      const begun: boolean[] = [];
      await running(
        async (report) => {
          await until(report, () => begun.length > 0);
          config('dryRun: true');
          await until(report, (now) => now.node.dryRun && now.config.lastReload?.isPending === undefined);
          expect(ends).toEqual(['dropped']);
          expect(victim.isAlive()).toBe(true);
          config();
          await until(report, () => ends.includes('ended'));
        },
        (entry) => {
          if (entry.kind === 'decision' && entry.decision.kind === 'evict') begun.push(entry.dry);
          if (entry.kind === 'outcome') ends.push(entry.outcome.kind);
        },
      );
      expect(victim.isAlive()).toBe(false);
    } finally {
      await node.remove();
    }
  });

  it('with a soft threshold lowered while preKill runs, spares the pod that was chosen for it', async () => {
    const node = aNode(300);
    try {
      const victim = await node.child('web');
      declare('web');
      const go = join(directory, 'go');
      const config = (soft: string) =>
        write([
          `cgroupRoot: ${node.path}`,
          `evictionSoft: { memory.available: "${soft}" }`,
          'evictionSoftGracePeriod: { memory.available: "100ms" }',
          'evictionHard: { memory.available: "1Mi" }',
          `preKill: { command: [/bin/sh, -c, "until [ -e ${go} ]; do sleep 0.05; done"], timeout: 5s }`,
        ]);
      config('500Mi');
      const because: unknown[] = [];
      const begun: unknown[] = [];
      await running(
        async (report) => {
          await until(report, () => begun.length > 0);
          config('2Mi');
          await until(report, (now) => now.config.lastReload?.ok === true);
          writeFileSync(go, '');
          await until(report, () => because.length > 0);
        },
        (entry) => {
          if (entry.kind === 'decision' && entry.decision.kind === 'evict') begun.push(entry);
          if (entry.kind === 'outcome') because.push('because' in entry.outcome && entry.outcome.because);
        },
      );
      expect(because).toEqual(['changed']);
      expect(victim.isAlive()).toBe(true);
    } finally {
      await node.remove();
    }
  });
});
