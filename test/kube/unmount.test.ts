import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { valueOrNull } from '../../src/core/reading.ts';
import { until } from '../../src/demo/cast.ts';
import type { Clock } from '../../src/ports.ts';
import { MI } from '../a.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { ACCEPTED, asked, clock, killer, pod, run, soft } from './a-killer.ts';

const isEnded = { kind: 'ended' };

describe.skipIf(needsCgroups !== '')(`the memory volume of a victim beside a kubelet ${needsCgroups}`, () => {
  /**
   * A container that has written two files to one, with a kubelet that removes the next at each look at what a dead pod holds, one
   * a second, as soon as it has a reason to.
   */
  async function aVolume(hasReason = () => true) {
    // Of its own: what other processes have in /dev/shm may leave too little there.
    const volume = mkdtempSync(join(tmpdir(), 'nodewarden-volume-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=80m', 'nodewarden-test', volume]);
    onTestFinished(() => {
      execFileSync('umount', ['-l', volume]);
      rmdirSync(volume);
    });
    const left = ['one', 'two'].map((name) => join(volume, name));
    const [one, two] = left;
    const write = `head -c ${40 * MI} /dev/zero > ${one}; head -c ${24 * MI} /dev/zero > ${two}`;
    const app = await pod.child('app', `${write}; echo up; exec sleep 1000`);
    /** As its kubelet, or by itself; the API accepts the request then. */
    const end = async () => {
      app.kill('SIGKILL');
      await until(clock, () => !app.isAlive(), 10_000);
      return ACCEPTED;
    };
    let looks = 0;
    const unmounting: Clock = {
      ...clock,
      monoMs: () => clock.monoMs() + looks * 1_000,
      after: (ms, then) => {
        if (ms !== 100) return clock.after(ms, then);
        // Until it has ended, that is how long an answer is waited for.
        if (app.isAlive()) return clock.after(10_000, then);
        return clock.after(ms, () => {
          looks++;
          const next = hasReason() ? left.shift() : undefined;
          if (next !== undefined) rmSync(next);
          then();
        });
      },
    };
    return { left, looks: () => looks, end, needs: { clock: unmounting } };
  }
  const accepted = Promise.resolve(ACCEPTED);
  const isAllBack = (outcome: Awaited<ReturnType<typeof run>>): void => {
    expect(outcome.kind === 'ended' && valueOrNull(outcome.releasedBytes)).toBeGreaterThan(60 * MI);
  };

  it('is waited for after the kill until all of it is unmounted, and counts as freed', async () => {
    const { left, needs } = await aVolume();
    const outcome = await run(killer(() => ['app'], { remove: accepted }, needs));
    expect({ left, outcome }).toMatchObject({ left: [], outcome: isEnded });
    isAllBack(outcome);
  });

  it('is waited for, too, if the pod ends before the first signal', async () => {
    const { left, end, needs } = await aVolume();
    // What keeps the pod's cgroup in use.
    await pod.child('sandbox');
    let answer: (said: typeof ACCEPTED) => void = () => undefined;
    const remove = new Promise<typeof ACCEPTED>((resolve) => {
      answer = resolve;
    });
    const onRemove = (): void => void end().then(answer);
    const outcome = await run(killer(() => ['app'], { remove, onRemove }, needs));
    expect({ left, outcome }).toMatchObject({ left: [], outcome: { ...isEnded, via: 'api' } });
    isAllBack(outcome);
  });

  it('is waited for, too, if the kubelet ends the pod after an accepted eviction', async () => {
    const { left, end, needs } = await aVolume();
    const outcome = await run(
      killer(() => ['app'], { evict: end }, needs),
      soft(60_000),
    );
    expect({ left, outcome }).toMatchObject({ left: [], outcome: { ...isEnded, via: 'api' } });
    isAllBack(outcome);
  });

  it('is waited for, too, if the whole pod has ended before it could be asked', async () => {
    const { left, end, needs } = await aVolume();
    await end();
    const outcome = await run(killer(() => ['app'], {}, needs));
    expect({ left, outcome }).toMatchObject({ left: [], outcome: { kind: 'dropped', because: 'gone' } });
  });

  it('is no reason to keep a deletion waiting that got no answer, without which the kubelet would not unmount it', async () => {
    const { left, end, needs } = await aVolume(() => asked.includes('later d1'));
    await pod.child('sandbox');
    await end();
    const outcome = await run(killer(() => ['app'], {}, needs));
    expect({ left, outcome }).toMatchObject({ left: [], outcome: { kind: 'unknown' } });
  });

  it('is not waited for once a container of the pod was started again', async () => {
    const { looks, end, needs } = await aVolume(() => false);
    await end();
    let isAgain = false;
    const again: Clock = {
      ...needs.clock,
      after: (ms, then) => {
        if (isAgain) return needs.clock.after(ms, then);
        isAgain = true;
        void pod.child('again').then(() => needs.clock.after(ms, then));
        return () => undefined;
      },
    };
    await run(killer(() => ['app', 'again'], {}, { clock: again }));
    expect(looks()).toBe(1);
  });

  it('is not waited for once a shutdown has begun', async () => {
    const { left, needs } = await aVolume();
    const hasten = createHasten(clock);
    const phase = { tier: 'stop', endsMs: clock.monoMs() + 60_000 } as const;
    hasten.cut({ first: 'sigkill', graceMs: 0, phase });
    await run(
      killer(() => ['app'], { remove: accepted }, needs),
      {},
      hasten,
    );
    expect(left).toHaveLength(2);
  });
});
