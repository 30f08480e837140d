import { msOf } from '../../config/effective.ts';
import { readEviction, stallThreshold, withTwins } from '../../config/eviction.ts';
import { createFields } from '../../config/field.ts';
import { evictionSchema, nodewardenSchema } from '../../config/schema.ts';
import type { CoreConfig } from '../../core/core-config.ts';
import { isObject } from '../../core/shape.ts';
import { check, sayValue } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import type { Problem } from '../../document/problem.ts';
import { kubeletDocument } from '../envelope.ts';
import type { Json } from '../scenario.ts';
import { BLANK_CONFIG } from '../scenario-defaults.ts';

/** scenarios.md 2.1. Other fields of a KubeletConfiguration are ignored, like every unknown key here. */
const FIELDS = [
  'evictionHard',
  'evictionSoft',
  'evictionSoftGracePeriod',
  'evictionMinimumReclaim',
  // Ours, as swap.available in the four above: D17.
  'evictionStall',
  'evictionPressureTransitionPeriod',
  'evictionMaxPodGracePeriod',
  'mergeDefaultEvictionSettings',
  'enforceNodeAllocatable',
  'localStorageCapacityIsolation',
] as const;
const guardSchema = nodewardenSchema.shape.guard;

type ReadConfig = { readonly config: CoreConfig | null; readonly problems: readonly Problem[] };

/** The `config` of an eviction scenario, by the kubelet's rules; null if there are problems. */
export function readScenarioConfig(yaml: YamlDocument): ReadConfig {
  const given = isObject(yaml.value) ? yaml.value['config'] : undefined;
  if (given !== undefined && !isObject(given)) {
    const said = `expected a mapping, not ${sayValue(given)}; for example {"evictionHard": {"memory.available": "100Mi"}}`;
    return { config: null, problems: [yaml.problemAt(['config'], said)] };
  }
  const document = kubeletDocument(yaml, given ?? {}, FIELDS);
  const fields = check(evictionSchema, document);
  // The lines of values are not needed here, and finding them in JSON takes a walk through the whole text.
  const unasked = {
    ...createFields({ document, kind: 'kubelet' }, null),
    originOf: () => ({ kind: 'default' }) as const,
  };
  const eviction = readEviction(unasked);
  const guard = readGuard(yaml, given ?? {});
  const problems = [...fields.problems, ...eviction.problems, ...guard.problems];
  const { value } = fields;
  if (problems.length > 0 || value === null) return { config: null, problems };
  const full = value.evictionStall?.memory.full;
  const stall = full === undefined ? [] : [stallThreshold(full, { kind: 'default' })];
  const configured = [...eviction.thresholds, ...stall].map(({ field: _, origin: __, ...threshold }) => threshold);
  const config: CoreConfig = {
    ...BLANK_CONFIG,
    thresholds: withTwins(configured, value.enforceNodeAllocatable),
    // 0 means the default (kubelet-eviction.md 2.1).
    pressureTransitionMs: msOf(value.evictionPressureTransitionPeriod) || BLANK_CONFIG.pressureTransitionMs,
    maxPodGraceSeconds: value.evictionMaxPodGracePeriod,
    guard: guard.guard,
    localStorageLimits: value.localStorageCapacityIsolation ? 'enforce' : 'off',
  };
  return { config, problems: [] };
}

/** Our own key; absent = off, whatever the default of the agent's configuration is. */
function readGuard(
  yaml: YamlDocument,
  given: Json,
): { readonly guard: CoreConfig['guard']; readonly problems: readonly Problem[] } {
  if (given['guard'] === undefined || given['guard'] === null) return { guard: null, problems: [] };
  const { value, problems } = check(guardSchema, yaml, ['config', 'guard']);
  const isOff = value === null || value.sameOwnerKills === 0;
  return { guard: isOff ? null : { kills: value.sameOwnerKills, windowMs: msOf(value.window) }, problems };
}
