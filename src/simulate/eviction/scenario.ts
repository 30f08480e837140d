import type { MemoryGrowth } from '../../core/eviction/attribution.ts';
import { isNumber, isObject, shape } from '../../core/shape.ts';
import { type FsLayout, SIGNALS } from '../../core/signal.ts';
import { sayValue } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import { parseInstant } from '../../document/instant.ts';
import type { Problem } from '../../document/problem.ts';
import { expectOf, HEAD, HEAD_KEYS, headOf } from '../envelope.ts';
import type { EvictionScenario, EvictionStep, Json, ScenarioPod, Stopping } from '../scenario.ts';
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
import { readScenarioConfig } from './config.ts';
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
