import { createFields, entryOf, type Fields } from '../../config/field.ts';
import { kubeletSchema } from '../../config/schema.ts';
import {
  phasesOf,
  readShutdown,
  type ShutdownPeriods,
  type ShutdownRefusal,
  shutdownRefusals,
} from '../../config/shutdown.ts';
import { shutdownWarnings } from '../../config/shutdown-warnings.ts';
import type { ShutdownPhase } from '../../core/core-config.ts';
import type { PodView } from '../../core/pod/pod.ts';
import { isObject } from '../../core/shape.ts';
import { check, sayValue } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import type { Problem } from '../../document/problem.ts';
import { expectOf, HEAD, HEAD_KEYS, headOf, kubeletDocument } from '../envelope.ts';
import type { Json, ScenarioHead } from '../scenario.ts';
import {
  among,
  createMistakes,
  elsewhere,
  flag,
  instant,
  type Mistakes,
  mapOf,
  orNull,
  ours,
  readMs,
  type Shape,
} from '../shape.ts';
import { type ListedPod, podsOf } from '../v1-pod.ts';
import { EXPECT } from './expect.ts';
import { type PodBehaviour, podBehaviourOf } from './pod-behaviour.ts';

/** shutdown-scenarios.md, checked. Times in milliseconds; 0 is the arrival of PrepareForShutdown(true). */
export type ShutdownScenario = ScenarioHead & {
  readonly kind: 'ShutdownScenario';
  /** What the kubelet refuses in the configuration; empty = it accepts it. */
  readonly refusals: readonly ShutdownRefusal[];
  /** Ascending by priority; empty = off. */
  readonly phases: readonly ShutdownPhase[];
  /** kubelet-shutdown.md 1.6, and names in `behaviour` that no pod has. */
  readonly warnings: readonly string[];
  readonly logind: {
    readonly inhibitDelayMaxMs: number;
    /** null: as requested. */
    readonly overrideGivesMs: number | null;
    readonly overrideTakesMs: number;
  };
  readonly pods: readonly ShutdownScenarioPod[];
  /** null = never. */
  readonly cancelAtMs: number | null;
  readonly cancelPolicy: 'promptly' | 'afterPhases';
  /** As written; its shape has been checked. */
  readonly expect: Json | null;
};
export type ShutdownScenarioPod = {
  /** namespace/name */
  readonly name: string;
  readonly declared: Omit<PodView, 'usage'>;
  /** kubelet-shutdown.md 4.1: false for mirror pods and for those that have ended. */
  readonly isStopped: boolean;
  readonly behaviour: PodBehaviour;
  /**
   * `late`: it waits for units that are not pods and may never end, until its latest time to be signalled. `at-once`: its time
   * begins with its phase. Absent: it waits for the pods before it alone.
   */
  readonly isTold?: 'late' | 'at-once';
};

const delay: Shape = (value, at) => {
  instant(value, at);
  if ((readMs(value) ?? 0) < 0) at.mistakes.at(at.path, `must not be negative, it is ${sayValue(value)}`);
};
const stopping = { stopAfter: delay, preStop: delay };
const behaviour = ours({
  ...stopping,
  never: flag,
  killDelay: delay,
  unmountAfter: delay,
  terminatingFor: delay,
  containers: mapOf(ours(stopping)),
});

/** For every pod, or for one by its name. */
const behaviours: Shape = (value, at) => {
  mapOf(behaviour)(value, at);
  for (const name of Object.keys(isObject(value) ? value : {})) {
    if (name === 'default' || /^[^/]+\/[^/]+$/.test(name)) continue;
    at.mistakes.at([...at.path, name], 'must be default, or a pod as namespace/name; for example "default/web"', 'key');
  }
};

/** shutdown-scenarios.md 1 to 4, except the envelope, the configuration and the pods. */
const ROOT = ours(
  {
    ...HEAD,
    config: elsewhere,
    pods: elsewhere,
    logind: orNull(ours({ inhibitDelayMax: delay, overrideGives: delay, overrideTakes: delay })),
    behaviour: orNull(behaviours),
    cancelAt: orNull(delay),
    cancelPolicy: orNull(among(['afterPhases', 'promptly'])),
    expect: orNull(EXPECT),
  },
  HEAD_KEYS,
);

/** The scenario in a document, or all its mistakes, at most MAX_MISTAKES. */
export function readShutdownScenario(yaml: YamlDocument): {
  readonly scenario: ShutdownScenario | null;
  readonly problems: readonly Problem[];
} {
  const head = headOf(yaml);
  const root = objectOf(yaml.value);
  const mistakes = createMistakes(yaml);
  ROOT(yaml.value, { path: [], mistakes, startWallMs: null });
  const config = readConfig(yaml, root['config'], mistakes);
  const behaviour = objectOf(root['behaviour']);
  const pods = root['pods'] === undefined || root['pods'] === null ? [] : readPods(yaml, behaviour, mistakes);
  const all = mistakes.all();
  if (all.length > 0 || head === null) return { scenario: null, problems: all };
  const logind = objectOf(root['logind']);
  const scenario: ShutdownScenario = {
    name: head.name,
    labels: head.labels,
    kind: 'ShutdownScenario',
    ...config,
    warnings: [...config.warnings, ...unknownNames(behaviour, pods)],
    logind: {
      inhibitDelayMaxMs: readMs(logind['inhibitDelayMax']) ?? 5_000,
      overrideGivesMs: readMs(logind['overrideGives']),
      overrideTakesMs: readMs(logind['overrideTakes']) ?? 0,
    },
    pods,
    cancelAtMs: readMs(root['cancelAt']),
    cancelPolicy: root['cancelPolicy'] === 'promptly' ? 'promptly' : 'afterPhases',
    expect: expectOf(root['expect']),
  };
  return { scenario, problems: [] };
}

const objectOf = (value: unknown): Json => (isObject(value) ? value : {});

type Config = Pick<ShutdownScenario, 'refusals' | 'phases' | 'warnings'>;
const FIELDS = ['shutdownGracePeriod', 'shutdownGracePeriodCriticalPods', 'shutdownGracePeriodByPodPriority'];

/** shutdown-scenarios.md 2.1: what cannot be decoded is a mistake, what the kubelet refuses is a result. */
function readConfig(yaml: YamlDocument, given: unknown, mistakes: Mistakes): Config {
  if (given !== undefined && given !== null && !isObject(given)) {
    mistakes.at(['config'], `expected a mapping, not ${sayValue(given)}; for example {"shutdownGracePeriod": "30s"}`);
  }
  const document = kubeletDocument(yaml, objectOf(given), FIELDS);
  const checked = check(kubeletSchema, document);
  mistakes.add(checked.problems);
  const fields = createFields({ document, kind: 'file' }, null);
  const shutdown = readShutdown(fields);
  const refusals = shutdownRefusals(shutdown);
  return {
    refusals,
    phases: phasesOf(shutdown),
    warnings: refusals.length > 0 || checked.value === null ? [] : configWarnings(shutdown, fields),
  };
}

function configWarnings(shutdown: ShutdownPeriods, fields: Fields): readonly string[] {
  const settings = FIELDS.map((path) => ({ path, value: null, origin: fields.originOf([path]) }));
  const negative = shutdown.byPodPriority.flatMap(({ priority, periodSeconds }) => {
    const said = `the phase of priority ${priority} has ${periodSeconds} s: it ends at once and is subtracted from the time requested from logind`;
    return periodSeconds < 0 ? [`shutdownGracePeriodByPodPriority: ${said}; nodewarden refuses it`] : [];
  });
  return [...shutdownWarnings({ shutdown, settings }), ...negative];
}

function readPods(yaml: YamlDocument, behaviour: Json, mistakes: Mistakes): readonly ShutdownScenarioPod[] {
  const listed = podsOf(yaml, ['pods']);
  mistakes.add(listed.problems);
  const seen = new Set<string>();
  return listed.pods.map((pod) => {
    const read = podOf(pod, behaviour);
    if (!read.isStopped || listed.problems.length > 0) return read;
    const { uid } = read.declared;
    // Results are keyed by name. A pod that has ended counts again while its deletion is in progress.
    if (seen.has(read.name) || seen.has(uid)) {
      mistakes.at([...pod.path, 'metadata', 'name'], `another pod has the name ${read.name} or its uid`);
    }
    seen.add(read.name).add(uid);
    return read;
  });
}

function podOf({ pod, v1, isActive }: ListedPod, all: Json): ShutdownScenarioPod {
  const behaviour = podBehaviourOf(v1, objectOf(entryOf(all, pod.ref)), objectOf(entryOf(all, 'default')));
  const isTerminating = behaviour.deletion !== null;
  const isMirror = entryOf(v1.metadata.annotations, 'kubernetes.io/config.mirror') !== undefined;
  return {
    name: pod.ref,
    // shutdown-scenarios.md 2.3: nothing resolves a priority class here.
    declared: { ...pod.declared, priority: v1.spec.priority ?? 0, isTerminating },
    isStopped: !isMirror && (isActive || isTerminating),
    behaviour,
  };
}

function unknownNames(behaviour: Json, pods: readonly ShutdownScenarioPod[]): readonly string[] {
  const names = new Set(pods.map(({ name }) => name));
  return Object.keys(behaviour).flatMap((name) =>
    name === 'default' || names.has(name) ? [] : [`behaviour: there is no pod ${name}`],
  );
}
