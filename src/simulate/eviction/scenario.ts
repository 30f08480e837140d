import { msOf } from '../../config/effective.ts';
import { readEviction, stallThreshold, withTwins } from '../../config/eviction.ts';
import { createFields } from '../../config/field.ts';
import { evictionSchema, nodewardenSchema } from '../../config/schema.ts';
import type { CoreConfig } from '../../core/core-config.ts';
import type { MemoryGrowth } from '../../core/eviction/attribution.ts';
import { isNumber, isObject, shape } from '../../core/shape.ts';
import { type FsLayout, SIGNALS } from '../../core/signal.ts';
import { check, sayValue } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import { parseInstant } from '../../document/instant.ts';
import type { Problem } from '../../document/problem.ts';
import { expectOf, HEAD, HEAD_KEYS, headOf, kubeletDocument } from '../envelope.ts';
import {
  BLANK_CONFIG,
  type EvictionScenario,
  type EvictionStep,
  type Json,
  type ScenarioPod,
  type Stopping,
} from '../scenario.ts';
import {
  among,
  createMistakes,
  elsewhere,
  flag,
  instant,
  listOf,
  type Mistakes,
  ours,
  type Place,
  POD_NAME,
  readMs,
  text,
  whole,
} from '../shape.ts';
import { activeOf, podsOf } from '../v1-pod.ts';
import { EXPECT } from './expect.ts';
import { SUMMARY } from './stats.ts';

type ReadScenario = { readonly scenario: EvictionScenario | null; readonly problems: readonly Problem[] };

const MEMORY_GROWTH = ours(
  {
    overMs: whole,
    podsBytes: whole,
    outsideBytes: whole,
    others: listOf(ours({ where: text, bytes: whole }, ['where', 'bytes'])),
  },
  ['overMs', 'podsBytes', 'outsideBytes', 'others'],
);
/** Only for a value whose shape was checked. */
const isGrowth = shape<MemoryGrowth>({
  overMs: isNumber,
  podsBytes: isNumber,
  outsideBytes: isNumber,
  others: Array.isArray,
});
const ROOT = ours(
  {
    ...HEAD,
    start: (value, at) => {
      if (typeof value === 'string' && parseInstant(value) !== null) return;
      at.mistakes.at(
        at.path,
        `expected a time as RFC 3339 writes it, not ${sayValue(value)}; for example "2026-01-31T10:00:00Z"`,
      );
    },
    config: elsewhere,
    node: ours({ name: text, dedicatedImageFs: flag, splitImageFs: flag }),
    pods: elsewhere,
    steps: listOf(
      ours(
        {
          at: (value, at) => {
            instant(value, at);
            if ((readMs(value) ?? 0) < 0) at.mistakes.at(at.path, 'must not be before the start');
          },
          summary: SUMMARY,
          summaryPatch: SUMMARY,
          statsFail: flag,
          pods: elsewhere,
          afterReclaim: SUMMARY,
          afterReclaimFails: flag,
          reclaimFails: listOf(among(['containers', 'images'])),
          killFails: (value, at) => {
            if (typeof value !== 'boolean') listOf(POD_NAME)(value, at);
          },
          memoryGrowth: MEMORY_GROWTH,
          stopping: listOf(ours({ pod: POD_NAME, for: listOf(among(SIGNALS), 1) }, ['pod', 'for'])),
          expect: EXPECT,
        },
        ['at'],
      ),
      1,
    ),
  },
  [...HEAD_KEYS, 'steps'],
);

/** scenarios.md 1 to 4 and 7: a scenario, or all its mistakes, at most MAX_MISTAKES. */
export function readEvictionScenario(yaml: YamlDocument): ReadScenario {
  const head = headOf(yaml);
  const root = objectOf(yaml.value) ?? {};
  const mistakes = createMistakes(yaml);
  const startWallMs = typeof root['start'] === 'string' ? parseInstant(root['start']) : null;
  // An invalid start is reported once, not at every time that needs it.
  const isStartWrong = root['start'] !== undefined && startWallMs === null;
  const place: Place = { path: [], mistakes, startWallMs: isStartWrong ? 0 : startWallMs };
  ROOT(yaml.value, place);
  const config = readScenarioConfig(yaml);
  mistakes.add(config.problems);
  const layout = readLayout(root['node'], mistakes);
  const pods = root['pods'] === undefined ? [] : readPods(yaml, ['pods'], mistakes);
  const steps = Array.isArray(root['steps']) ? readSteps(yaml, root['steps'], mistakes) : [];
  const all = mistakes.all();
  if (all.length > 0 || head === null || config.config === null) return { scenario: null, problems: all };
  const { name, labels } = head;
  const scenario = {
    kind: 'EvictionScenario',
    name,
    labels,
    config: config.config,
    layout,
    startWallMs,
    pods,
    steps,
  } as const;
  return { scenario, problems: [] };
}

/** scenarios.md 2.2. */
function readLayout(node: unknown, mistakes: Mistakes): FsLayout {
  if (!isObject(node)) return 'nodefs-only';
  const isSplit = node['splitImageFs'] === true;
  if (node['dedicatedImageFs'] === true) return isSplit ? 'containerfs-separate' : 'imagefs-separate';
  if (isSplit) mistakes.at(['node', 'splitImageFs'], 'true needs dedicatedImageFs: true');
  return 'nodefs-only';
}

function readPods(yaml: YamlDocument, path: readonly (string | number)[], mistakes: Mistakes): readonly ScenarioPod[] {
  const { pods, problems } = podsOf(yaml, path);
  mistakes.add(problems);
  return activeOf(pods);
}

function readSteps(yaml: YamlDocument, list: readonly unknown[], mistakes: Mistakes): readonly EvictionStep[] {
  let lastMs = Number.NEGATIVE_INFINITY;
  const steps: EvictionStep[] = [];
  for (const [i, step] of list.entries()) {
    if (mistakes.isFull()) break;
    const path = ['steps', i];
    const atMs = isObject(step) ? readMs(step['at']) : null;
    if (!isObject(step) || atMs === null) continue;
    if (atMs <= lastMs) mistakes.at([...path, 'at'], 'must be later than that of the step before');
    lastMs = atMs;
    if (step['summary'] !== undefined && step['summaryPatch'] !== undefined) {
      mistakes.at([...path, 'summaryPatch'], 'cannot be combined with summary', 'key');
    }
    steps.push({
      atMs,
      stats: statsOf(step),
      pods: step['pods'] === undefined ? null : readPods(yaml, [...path, 'pods'], mistakes),
      afterReclaim: afterReclaimOf(step),
      stopping: stoppingOf(step['stopping']),
      killFails: step['killFails'] === true ? 'all' : textsOf(step['killFails']),
      reclaimFails: textsOf(step['reclaimFails']).filter((call) => call === 'containers' || call === 'images'),
      memoryGrowth: isGrowth(step['memoryGrowth']) ? step['memoryGrowth'] : null,
      expect: expectOf(step['expect']),
    });
  }
  return steps;
}

function statsOf(step: Json): EvictionStep['stats'] {
  const summary = objectOf(step['summary']);
  const patch = objectOf(step['summaryPatch']);
  const given =
    summary !== null
      ? ({ kind: 'whole', summary } as const)
      : patch !== null
        ? ({ kind: 'patch', patch } as const)
        : ({ kind: 'same' } as const);
  return step['statsFail'] === true ? { kind: 'failed', kept: given } : given;
}

function afterReclaimOf(step: Json): EvictionStep['afterReclaim'] {
  if (step['afterReclaimFails'] === true) return { kind: 'fails' };
  const patch = objectOf(step['afterReclaim']);
  return patch === null ? null : { kind: 'patch', patch };
}

/** Its shape has been checked, or is a mistake. */
function stoppingOf(value: unknown): readonly Stopping[] {
  return (Array.isArray(value) ? value : []).filter(isObject).map((one) => {
    const signals = textsOf(one['for']);
    return { pod: String(one['pod']), for: SIGNALS.filter((signal) => signals.includes(signal)) };
  });
}

function objectOf(value: unknown): Json | null {
  return isObject(value) ? value : null;
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === 'string') : [];
}

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
function readScenarioConfig(yaml: YamlDocument): ReadConfig {
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
