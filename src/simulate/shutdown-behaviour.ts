import { entryOf } from '../config/field.ts';
import { isObject, readMs } from './envelope.ts';
import type { Json } from './scenario.ts';

/** How long a pod takes to stop (shutdown-scenarios.md 2.4), with all fallbacks resolved. */
export type PodBehaviour = {
  readonly containers: readonly ContainerBehaviour[];
  /** In the order of initContainers. */
  readonly sidecars: readonly ContainerBehaviour[];
  readonly killDelayMs: number;
  /** 0 = it has no volumes to wait for. */
  readonly unmountAfterMs: number;
  /** Its deletion began before the shutdown and goes on under its own grace; null = it is not being deleted. */
  readonly deletion: { readonly startMs: number; readonly graceSeconds: number } | null;
};
/** `stopAfterMs`: null = never on SIGTERM. `preStopMs`: null = it has no hook. */
export type ContainerBehaviour = { readonly stopAfterMs: number | null; readonly preStopMs: number | null };

const DEFAULT_KILL_DELAY_MS = 100;

/** Of a checked v1 Pod, its own entry and the default one, both checked. */
export function podBehaviourOf(pod: Json, own: Json, fallback: Json): PodBehaviour {
  const said = withFallback(own, fallback);
  const graceSeconds = entryOf(pod['metadata'], 'deletionGracePeriodSeconds');
  const terminatingForMs = readMs(said['terminatingFor']);
  const containersOf = (key: string): readonly Json[] => {
    const list = entryOf(pod['spec'], key);
    return Array.isArray(list) ? list.filter(isObject) : [];
  };
  const sidecars = containersOf('initContainers').filter((container) => container['restartPolicy'] === 'Always');
  return {
    containers: containersOf('containers').map((container) => containerOf(container, said)),
    sidecars: sidecars.map((container) => containerOf(container, said)),
    killDelayMs: readMs(said['killDelay']) ?? DEFAULT_KILL_DELAY_MS,
    unmountAfterMs: readMs(said['unmountAfter']) ?? 0,
    deletion:
      typeof graceSeconds === 'number' && terminatingForMs !== null
        ? { startMs: 0 - terminatingForMs, graceSeconds }
        : null,
  };
}

/** Field by field, but `stopAfter` or `never` of the pod replaces both. */
function withFallback(own: Json, fallback: Json): Json {
  const { stopAfter, never, ...rest } = fallback;
  const isOwnStop = own['stopAfter'] !== undefined || own['never'] !== undefined;
  return { ...(isOwnStop ? rest : fallback), ...own };
}

function containerOf(container: Json, said: Json): ContainerBehaviour {
  const own = entryOf(said['containers'], String(container['name']));
  const preStop = entryOf(container['lifecycle'], 'preStop');
  const hasHook = preStop !== undefined && preStop !== null;
  if (isObject(own)) {
    return { stopAfterMs: readMs(own['stopAfter']), preStopMs: hasHook ? (readMs(own['preStop']) ?? 0) : null };
  }
  return {
    stopAfterMs: said['never'] === true ? null : (readMs(said['stopAfter']) ?? 0),
    preStopMs: hasHook ? (readMs(said['preStop']) ?? 0) : null,
  };
}
