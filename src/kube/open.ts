import type { CandidateLimit, PodUid } from '../core/pod/pod.ts';
import { ifKnown, known, type Reading, unknown } from '../core/reading.ts';
import { readBootId } from '../host/clock.ts';
import { createDiskWalker } from '../host/disk-walk.ts';
import { createDyingHelp } from '../host/dying.ts';
import { hostName } from '../host/host-name.ts';
import type { KubeSettings, Mode, ModeNeeds, OpenMode } from '../mode.ts';
import type { ApiPod } from './api-pod.ts';
import { createApiWrites } from './api-writes.ts';
import { openCheckpoint } from './checkpoint.ts';
import { discoverEviction, type EvictionVersion } from './eviction.ts';
import { createKubeletEvictions } from './kubelet-evictions.ts';
import { createNodeMarks } from './node-marks.ts';
import { openConnection } from './open-connection.ts';
import { openRuntime } from './open-runtime.ts';
import { createKubePodDisk } from './pod-disk.ts';
import { watchPods } from './pod-watch.ts';
import { openRuntimeReclaim } from './reclaim.ts';
import { createRefusals } from './refusals.ts';
import { createRestartGuard } from './restart-guard.ts';
import { createKubeSource } from './source.ts';
import { openSpool } from './spool.ts';
import { createKubeKiller } from './stop.ts';
import { createTellApi } from './tell-api.ts';

/** The mode beside a kubelet, of one run of the agent. */
export function createKube(): OpenMode {
  return (needs) => {
    if (needs.kube === null) throw new Error('mode kubelet needs kubernetes.kubeconfig');
    return openKube(needs, needs.kube);
  };
}
