import { describe, expect, it } from 'vitest';
import { openParts } from '../../src/daemon/compose.ts';
import { loadToRun } from '../../src/daemon/reload.ts';
import { until } from '../../src/demo/cast.ts';
import { readBootId } from '../../src/host/clock.ts';
import { createCommandRunner } from '../../src/host/systemd/transient.ts';
import type { Mode } from '../../src/mode.ts';
import { createOomWatch } from '../../src/observe/oom-kills.ts';
import type { Killer } from '../../src/ports.ts';
import { createRecorders } from '../../src/record/writing/recorder.ts';
import { openShutdown } from '../../src/shutdown/open.ts';
import { createStandalone } from '../../src/standalone/open.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { clock, file, write } from './a-daemon.ts';

const boot = readBootId();

const victim = { uid: 'u', namespace: 'shop', name: 'web', qos: 'Burstable', priority: 0 } as const;

describe.skipIf(needsCgroups !== '' || !boot.known)('a shutdown', () => {
  it('is announced and finished as it began, and the next one not by a dry run that was switched on meanwhile', async () => {
    write([]);
    const complaints: string[] = [];
    const effective = loadToRun(file, (line) => complaints.push(line))?.effective;
    if (mounts === null || !boot.known || effective === undefined) throw new Error(complaints.join());
    let isDry = false;
    const did: string[] = [];
    const openMode = createStandalone();
    const stop: Killer['stop'] = async ({ decision }) => {
      did.push(`stop ${decision}`);
      return { of: decision, atMs: clock.monoMs(), kind: 'dropped', because: 'gone' };
    };
    const shutdown = openShutdown(clock, effective.runtimeDirectory);
    const oomWatch = createOomWatch(mounts, clock);
    const parts = openParts(
      {
        ...{ clock, mounts, bootId: boot.value, log: 'none', onEntry: undefined, shutdown, oomWatch },
        run: createCommandRunner({ systemd: shutdown.systemd, clock }),
        notifier: { follow: () => undefined },
        openRecorder: createRecorders(),
        openMode: (needs) => {
          const mode = openMode(needs);
          const announce: Mode['announce'] = async ({ decision }) => {
            did.push(`announce ${decision}`);
            return 'the node is cordoned';
          };
          return { ...mode, announce, killer: { ...mode.killer, stop } };
        },
        show: () => undefined,
      },
      effective,
      () => ({ ...effective, dryRun: isDry }),
    );
    const { begin } = parts.actor;
    const atMs = clock.monoMs();
    const announce = (id: string): void =>
      begin({ id, atMs, kind: 'announce-shutdown', totalMs: 1_000, byKubelet: false });
    const stopPod = (id: string): void =>
      begin({ id, atMs, kind: 'stop-for-shutdown', victim, phase: 1, graceSeconds: 1 });
    announce('1');
    isDry = true;
    stopPod('2');
    const isDryNow = [parts.ofShutdown().dryRun];
    begin({ id: '3', atMs, kind: 'undo-stops' });
    isDryNow.push(parts.ofShutdown().dryRun);
    stopPod('4');
    begin({ id: '5', atMs, kind: 'undo-stops' });
    announce('6');
    stopPod('7');
    await until(clock, () => parts.actor.underWay() === 0, 10_000);
    expect(did).toEqual(['announce 1', 'stop 2']);
    expect(isDryNow).toEqual([false, true]);
    await parts.close(true);
    oomWatch.close();
    await shutdown.close();
  });
});
