import { onTestFinished } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { createKubeSource, type KubeSource } from '../../src/kube/pods/source.ts';
import type { Clock } from '../../src/ports.ts';
import { clock } from '../host/test-cgroup.ts';
import { someFindings } from '../observe/a-bound-pod.ts';

type Needs = Parameters<typeof createKubeSource>[0];
const away = unknown('absent', 'test', 'there is none here');

/** Without an API, a runtime and a kubelet, but for what the test names. Closed after the test. */
export function aKubeSource(needs: Pick<Needs, 'mounts' | 'cgroupRoot'> & Partial<Needs>): KubeSource {
  const source = createKubeSource({
    clock,
    findings: someFindings(),
    configuredDriver: null,
    apiPods: () => known(new Map()),
    savedPods: new Map(),
    runtime: { facts: () => away, cgroupDriver: () => away, refresh: async () => away },
    ownLimitOf: () => null,
    isKubeletEvicting: () => false,
    isDrained: () => true,
    disk: async () => away,
    lookUp: () => false,
    isElsewhere: () => false,
    learnt: () => null,
    wake: () => undefined,
    ...needs,
  });
  onTestFinished(() => source.close());
  return source;
}

/** The machine's clock, set forward by the test, which also runs the one timer that there is. */
export function aTurnedClock() {
  let aheadMs = 0;
  let due: (() => void) | null = null;
  const turned: Clock = {
    monoMs: () => clock.monoMs() + aheadMs,
    wallMs: clock.wallMs,
    after: (_, run) => {
      due = run;
      return () => {
        due = null;
      };
    },
  };
  const ahead = (ms: number): void => {
    aheadMs += ms;
  };
  const pass = async (ms: number): Promise<void> => {
    ahead(ms);
    const run = due;
    due = null;
    run?.();
    await Promise.resolve();
  };
  return { clock: turned, ahead, pass };
}
