import * as z from 'zod/mini';
import { createFields, entryOf, type Fields } from '../config/field.ts';
import { kubeletSchema } from '../config/schema.ts';
import {
  phasesOf,
  readShutdown,
  type ShutdownPeriods,
  type ShutdownRefusal,
  shutdownRefusals,
} from '../config/shutdown.ts';
import { shutdownWarnings } from '../config/shutdown-warnings.ts';
import type { ShutdownPhase } from '../core/core-config.ts';
import type { PodView } from '../core/pod.ts';
import { check } from '../document/check.ts';
import { inOrder, type YamlDocument } from '../document/document.ts';
import type { Problem } from '../document/problem.ts';
import { readHead } from './envelope.ts';
import type { ScenarioHead } from './scenario.ts';
import { type ExpectedShutdown, expectSchema } from './shutdown-expect.ts';
import { delay } from './shutdown-time.ts';
import { type ListedPod, MAX_MISTAKES, podsOf } from './v1-pod.ts';

/** shutdown-scenarios.md, checked. Times in milliseconds; 0 is the arrival of PrepareForShutdown(true). */
export type ShutdownScenario = ScenarioHead & {
  readonly kind: 'ShutdownScenario';
  /** What the kubelet refuses of the configuration; empty = it takes it. */
  readonly refusals: readonly ShutdownRefusal[];
  /** Ascending by priority; empty = off. */
  readonly phases: readonly ShutdownPhase[];
  /** kubelet-shutdown.md 1.6, and names in `behaviour` that no pod has. */
  readonly warnings: readonly string[];
  readonly logind: {
    readonly inhibitDelayMaxMs: number;
    /** null: what was asked. */
    readonly overrideGivesMs: number | null;
    readonly overrideTakesMs: number;
  };
  readonly pods: readonly ShutdownScenarioPod[];
  /** null = never. */
  readonly cancelAtMs: number | null;
  readonly cancelPolicy: 'promptly' | 'afterPhases';
  readonly expect: ExpectedShutdown | null;
};
export type ShutdownScenarioPod = {
  /** namespace/name */
  readonly name: string;
  readonly declared: Omit<PodView, 'usage'>;
  /** kubelet-shutdown.md 4.1: false for mirror pods and for those that have ended. */
  readonly isStopped: boolean;
  readonly behaviour: PodBehaviour;
};
/** How long the pod takes to stop (shutdown-scenarios.md 2.4), with all fallbacks resolved. */
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

const stopping = { stopAfter: z.optional(delay), preStop: z.optional(delay) };
const behaviour = z.strictObject({
  ...stopping,
  never: z.optional(z.boolean()),
  killDelay: z.optional(delay),
  unmountAfter: z.optional(delay),
  terminatingFor: z.optional(delay),
  containers: z.optional(z.record(z.string(), z.strictObject(stopping))),
});
type Behaviour = z.output<typeof behaviour>;

const podName = z.string().check((context) => {
  if (context.value === DEFAULT || /^[^/]+\/[^/]+$/.test(context.value)) return;
  const message = 'must be default, or a pod as namespace/name; for example "default/web"';
  context.issues.push({ code: 'custom', message, input: context.value });
});
const DEFAULT = 'default';

const documentSchema = z.strictObject({
  // Each is read by whoever knows it.
  apiVersion: z.optional(z.unknown()),
  kind: z.optional(z.unknown()),
  metadata: z.optional(z.unknown()),
  config: z.optional(z.unknown()),
  pods: z.optional(z.unknown()),
  logind: z.nullish(
    z.strictObject({
      inhibitDelayMax: z.optional(delay),
      overrideGives: z.optional(delay),
      overrideTakes: z.optional(delay),
    }),
  ),
  behaviour: z.nullish(z.record(podName, behaviour)),
  cancelAt: z.nullish(delay),
  cancelPolicy: z.nullish(z.enum(['afterPhases', 'promptly'])),
  expect: z.nullish(expectSchema),
});
/** Those of a KubeletConfiguration that are read; a list without value is as none, a duration is not (config/load.ts). */
const configSchema = z.object({
  ...z.pick(kubeletSchema, { shutdownGracePeriod: true, shutdownGracePeriodCriticalPods: true }).shape,
  shutdownGracePeriodByPodPriority: z.nullish(kubeletSchema.shape.shutdownGracePeriodByPodPriority),
});
/** What only a shutdown reads of a v1 Pod; null is as absent, as in the API. */
const hooked = z.object({ lifecycle: z.nullish(z.object({ preStop: z.optional(z.unknown()) })) });
const shutdownPodSchema = z.object({
  metadata: z.object({
    annotations: z.nullish(z.record(z.string(), z.unknown())),
    deletionGracePeriodSeconds: z.nullish(z.int().check(z.minimum(0), z.meta({ examples: [30] }))),
  }),
  spec: z.object({
    priority: z.nullish(z.number()),
    containers: z.array(z.extend(hooked, { name: z.string() })),
    initContainers: z.nullish(z.array(z.extend(hooked, { name: z.string(), restartPolicy: z.nullish(z.string()) }))),
  }),
});
type ShutdownPodValues = z.output<typeof shutdownPodSchema>;

/** The scenario of a document, or every mistake in it, MAX_MISTAKES at the most. */
export function readShutdownScenario(yaml: YamlDocument): {
  readonly scenario: ShutdownScenario | null;
  readonly problems: readonly Problem[];
} {
  const { head, problems: ofHead } = readHead(yaml);
  const checked = check(documentSchema, yaml);
  const problems: Problem[] = [...ofHead, ...checked.problems];
  const config = readConfig(yaml, problems);
  const behaviours = checked.value?.behaviour ?? {};
  const pods = readPods(yaml, behaviours, problems);
  if (head === null || checked.value === null || problems.length > 0) {
    return { scenario: null, problems: inOrder(problems).slice(0, MAX_MISTAKES) };
  }
  const { logind, cancelAt, cancelPolicy, expect } = checked.value;
  const scenario: ShutdownScenario = {
    name: head.name,
    labels: head.labels,
    kind: 'ShutdownScenario',
    ...config,
    warnings: [...config.warnings, ...unknownNames(behaviours, pods)],
    logind: {
      inhibitDelayMaxMs: logind?.inhibitDelayMax ?? 5_000,
      overrideGivesMs: logind?.overrideGives ?? null,
      overrideTakesMs: logind?.overrideTakes ?? 0,
    },
    pods,
    cancelAtMs: cancelAt ?? null,
    cancelPolicy: cancelPolicy ?? 'afterPhases',
    expect: expect ?? null,
  };
  return { scenario, problems: [] };
}

type Config = Pick<ShutdownScenario, 'refusals' | 'phases' | 'warnings'>;
const CONFIG_FIELDS = ['shutdownGracePeriod', 'shutdownGracePeriodCriticalPods', 'shutdownGracePeriodByPodPriority'];

/** shutdown-scenarios.md 2.1: what cannot be decoded is a mistake, what the kubelet refuses is a result. */
function readConfig(yaml: YamlDocument, problems: Problem[]): Config {
  const value = entryOf(yaml.value, 'config') ?? {};
  const document: YamlDocument = {
    ...yaml,
    value,
    problemAt: (path, text, of) => yaml.problemAt(['config', ...path], text, of),
  };
  const checked = check(configSchema, document);
  problems.push(...checked.problems);
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
  const settings = CONFIG_FIELDS.map((path) => ({ path, value: null, origin: fields.originOf([path]) }));
  const negative = shutdown.byPodPriority.flatMap(({ priority, graceSeconds }) => {
    const said = `the phase of priority ${priority} has ${graceSeconds} s: it ends at once and is taken off what is asked of logind`;
    return graceSeconds < 0 ? [`shutdownGracePeriodByPodPriority: ${said}; the product refuses it`] : [];
  });
  return [...shutdownWarnings({ shutdown, settings }), ...negative];
}

type Behaviours = { readonly [name: string]: Behaviour };

function readPods(yaml: YamlDocument, behaviours: Behaviours, problems: Problem[]): readonly ShutdownScenarioPod[] {
  const value = entryOf(yaml.value, 'pods');
  if (value === undefined || value === null) return [];
  const listed = podsOf(yaml, ['pods']);
  problems.push(...listed.problems);
  const names = new Set<string>();
  return listed.pods.flatMap((pod) => {
    const { value: values, problems: wrong } = check(shutdownPodSchema, yaml, pod.path);
    problems.push(...wrong);
    if (values === null) return [];
    const read = podOf(pod, values, behaviours);
    // Results go by name; a static pod and its mirror have the same one.
    if (read.isStopped && names.has(read.name)) {
      problems.push(yaml.problemAt([...pod.path, 'metadata', 'name'], `a second pod ${read.name}`));
    }
    if (read.isStopped) names.add(read.name);
    return [read];
  });
}

function podOf({ pod, isActive }: ListedPod, values: ShutdownPodValues, behaviours: Behaviours): ShutdownScenarioPod {
  const own = Object.hasOwn(behaviours, pod.ref) ? behaviours[pod.ref] : undefined;
  const behaviour = behaviourOf(values, withDefaults(own ?? {}, behaviours[DEFAULT] ?? {}));
  const isTerminating = behaviour.deletion !== null;
  const isMirror = values.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
  return {
    name: pod.ref,
    // shutdown-scenarios.md 2.3: nothing resolves a priority class here.
    declared: { ...pod.declared, priority: values.spec.priority ?? 0, isTerminating },
    isStopped: !isMirror && (isActive || isTerminating),
    behaviour,
  };
}

/** shutdown-scenarios.md 2.4: field by field, but `stopAfter` or `never` of a pod replaces both. */
function withDefaults(own: Behaviour, fallback: Behaviour): Behaviour {
  const { stopAfter, never, ...rest } = fallback;
  const isOwnStop = own.stopAfter !== undefined || own.never !== undefined;
  return { ...(isOwnStop ? rest : fallback), ...own };
}

function behaviourOf({ metadata, spec }: ShutdownPodValues, said: Behaviour): PodBehaviour {
  const stopAfterMs = said.never === true ? null : (said.stopAfter ?? 0);
  const containerOf = ({ name, lifecycle }: ShutdownPodValues['spec']['containers'][number]): ContainerBehaviour => {
    const own = Object.hasOwn(said.containers ?? {}, name) ? said.containers?.[name] : undefined;
    const hasHook = lifecycle?.preStop !== undefined && lifecycle.preStop !== null;
    const preStop = own === undefined ? said.preStop : own.preStop;
    return {
      stopAfterMs: own === undefined ? stopAfterMs : (own.stopAfter ?? null),
      preStopMs: hasHook ? (preStop ?? 0) : null,
    };
  };
  const graceSeconds = metadata.deletionGracePeriodSeconds ?? null;
  return {
    containers: spec.containers.map(containerOf),
    sidecars: (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always').map(containerOf),
    killDelayMs: said.killDelay ?? 100,
    unmountAfterMs: said.unmountAfter ?? 0,
    deletion:
      graceSeconds === null || said.terminatingFor === undefined
        ? null
        : { startMs: 0 - said.terminatingFor, graceSeconds },
  };
}

function unknownNames(behaviours: Behaviours, pods: readonly ShutdownScenarioPod[]): readonly string[] {
  const names = new Set(pods.map(({ name }) => name));
  return Object.keys(behaviours).flatMap((name) =>
    name === DEFAULT || names.has(name) ? [] : [`behaviour: there is no pod ${name}`],
  );
}
