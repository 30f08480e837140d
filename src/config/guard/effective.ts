import { createHash } from 'node:crypto';
import type { GuardConfig, LabelRequirement } from '../../core/guard/config.ts';
import type { YamlDocument } from '../../document/document.ts';
import { msOf } from '../effective.ts';
import { createFields, entryOf, type Fields } from '../field.ts';
import { parseListen } from '../section-rules.ts';
import { leavesOf, type Setting } from '../setting.ts';
import { canonical, type GuardMethods } from './method.ts';
import type { ReadPlans } from './plans.ts';
import { GUARD_FIELDS, type GuardValues } from './schema.ts';

/** Everything that guard.md section 4 configures, checked, with all defaults filled in. */
export type GuardEffective = {
  readonly file: string;
  /** To be watched; null = none. */
  readonly nodesFile: string | null;
  readonly core: GuardConfig;
  readonly methods: GuardMethods;
  readonly secretDirectory: string;
  readonly kubernetes: GuardValues['kubernetes'];
  readonly history: GuardValues['history'];
  /** null = off. */
  readonly http: { readonly host: string; readonly port: number; readonly hosts: readonly string[] } | null;
  readonly socket: string;
  readonly stateDirectory: string;
  readonly logLevel: GuardValues['log']['level'];
  /** Of what two replicas must agree on: what is decided, and through which devices; 16 hexadecimal digits. */
  readonly hash: string;
  /** Every field with its origin, in the order of the reference. */
  readonly settings: readonly Setting[];
};

type Checked = {
  readonly file: string;
  readonly nodesFile: YamlDocument | null;
  readonly fields: Fields;
  readonly values: GuardValues;
  readonly plans: ReadPlans;
};

/** Texts were checked before, so one that does not parse is a broken invariant. */
export function guardEffectiveOf({ file, fields, nodesFile, values, plans }: Checked): GuardEffective {
  const { kubernetes, history, http, socket, stateDirectory, log, fencing } = values;
  const core = {
    ...rulesOf(values),
    deadlineMs: msOf(fencing.deadline),
    plans: plans.plans,
    defaultPlan: plans.defaultPlan,
  };
  const listen = http === undefined ? null : parseListen(http.listen);
  const { methods } = plans;
  return {
    file,
    nodesFile: fencing.nodesFile ?? null,
    ...{ core, methods, kubernetes, history, socket, stateDirectory },
    secretDirectory: fencing.secretDirectory,
    http: http === undefined || listen === null ? null : { ...listen, hosts: http.hosts },
    logLevel: log.level,
    hash: hashOf({ core, methods, history, outOfService: kubernetes.outOfService }),
    settings: [
      ...GUARD_FIELDS.flatMap((name) => leavesOf([name], Reflect.get(values, name), fields)),
      ...(nodesFile === null ? [] : leavesOf(['nodes'], entryOf(nodesFile.value, 'nodes'), fieldsOf(nodesFile))),
    ],
  };
}

const fieldsOf = (document: YamlDocument): Fields => createFields({ document, kind: 'file' }, null);

/** What of it decisions need, but for the devices. */
export function rulesOf(values: Omit<GuardValues, 'fencing' | 'apiVersion' | 'kind'>): GuardRules {
  const { storm, rate, recovery, patrol } = values;
  const everyMs = msOf(patrol.every);
  return {
    dryRun: values.dryRun,
    nodes: requirementsOf(values.nodes),
    controlPlane: values.controlPlane,
    domainLabels: values.domainLabels,
    suspectAfterMs: msOf(values.suspectAfter),
    deadAfterMs: msOf(values.deadAfter),
    fenceWhen: values.fenceWhen,
    kubeletAnswers: values.kubeletAnswers,
    settleMs: msOf(values.settle),
    plannedWaitMs: msOf(values.plannedWait),
    otherOwner: values.otherOwner,
    storm: {
      maxUnhealthyShare: shareOf(storm.maxUnhealthy),
      domainShare: shareOf(storm.domainShare),
      burst: { nodes: storm.burst.nodes, withinMs: msOf(storm.burst.within) },
      coolDownMs: msOf(storm.coolDown),
    },
    rate: { minIntervalMs: msOf(rate.minInterval), maxPerHour: rate.maxPerHour, maxInFlight: rate.maxInFlight },
    recovery: {
      powerOn: recovery.powerOn,
      bootTimeMs: msOf(recovery.bootTime),
      stableForMs: msOf(recovery.stableFor),
      attempts: recovery.attempts,
      perNodePerDay: recovery.perNodePerDay,
    },
    drainWaitMs: msOf(values.drainWait),
    patrol: everyMs === 0 ? null : { everyMs, maxPerMinute: patrol.maxPerMinute },
    requireRehearsal: values.requireRehearsal,
  };
}
type GuardRules = Omit<GuardConfig, 'deadlineMs' | 'plans' | 'defaultPlan'>;

const shareOf = (percent: string): number => Number.parseFloat(percent) / 100;

function requirementsOf({ matchLabels, matchExpressions }: GuardValues['nodes']): readonly LabelRequirement[] {
  const equal = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'In' as const, values: [value] }));
  return [...equal, ...matchExpressions];
}

const hashOf = (value: unknown): string => createHash('sha256').update(canonical(value)).digest('hex').slice(0, 16);
