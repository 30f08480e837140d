import { type GuardConfig, keysOf, type NodePlan, planOf } from '../../core/guard/config.ts';
import type { FencingRecord } from '../../core/guard/record.ts';
import type { GuardEffective } from './effective.ts';
import { canonical, type GuardMethods, methodFor, sameMethod } from './method.ts';
import { NO_METHOD } from './plans.ts';

/** What a running guard holds on to: credentials, lease, sockets and files. */
const FIXED = ['kubernetes', 'http', 'socket', 'stateDirectory'] as const;

/** Fields that differ and need a restart to take effect. */
export function needRestart(running: GuardEffective, next: GuardEffective): readonly string[] {
  return FIXED.filter((field) => canonical(running[field]) !== canonical(next[field]));
}

/**
 * The configuration after a reload. A fencing that is open keeps its plan, and its methods as they were: whatever was
 * switched off must be asked, and switched on again, in the same way.
 */
export function reloaded(running: GuardEffective, next: GuardEffective, open: readonly OpenFencing[]): GuardEffective {
  const anew = { ...next.methods, kept: {} };
  const used = open.map(({ node, plan }) => ({
    node,
    methods: keysOf(plan).flatMap((key) => methodFor(running.methods, node, key) ?? []),
  }));
  const outdated = used.flatMap(({ node, methods }) => {
    const isOther = methods.some((was) => !sameMethod(was, methodFor(anew, node, was.key) ?? was));
    return isOther ? [node.uid] : [];
  });
  const kept = used.map(({ node, methods }) => [
    node.uid,
    Object.fromEntries(methods.map((method) => [method.key, method])),
  ]);
  return withKept({ ...next, core: { ...next.core, outdated } }, Object.fromEntries(kept));
}

/** What was kept for a fencing ends with it: the next one of that node is by the configuration. */
export function withoutClosed(running: GuardEffective, open: readonly Pick<OpenFencing, 'node'>[]): GuardEffective {
  const uids = new Set(open.map(({ node }) => node.uid));
  const { kept } = running.methods;
  if (Object.keys(kept).every((uid) => uids.has(uid))) return running;
  const { outdated = [] } = running.core;
  const isStill = outdated.every((uid) => uids.has(uid));
  // What is decided by is another configuration only if something in it is.
  const core = isStill ? running.core : { ...running.core, outdated: outdated.filter((uid) => uids.has(uid)) };
  const still = Object.entries(kept).filter(([uid]) => uids.has(uid));
  return withKept({ ...running, core }, Object.fromEntries(still));
}

/** Of a configuration, what is compared with the next one. */
export type Plans = Pick<GuardConfig, 'plans' | 'defaultPlan'>;

/**
 * YAML that is cut off between two lines is valid: the last node may have lost the device of its second supply, on which its
 * machine runs while the first one says off. Nothing is fenced by a level that names less than `before`. `less`: such nodes;
 * `isDefaultLess`: so are all that are not listed. `plans`: to compare the next one with.
 */
export function withoutLess(
  before: Plans,
  next: GuardEffective,
): {
  readonly effective: GuardEffective;
  readonly less: readonly string[];
  readonly isDefaultLess: boolean;
  readonly plans: Plans;
} {
  const { core, methods } = next;
  const names = new Set([...Object.keys(before.plans), ...Object.keys(core.plans)]);
  const was = [...names].flatMap((name): readonly (readonly [string, NodePlan])[] => {
    const plan = planOf(before, name);
    return plan !== null && isLess(planOf(core, name), plan) ? [[name, plan]] : [];
  });
  const isDefaultLess = before.defaultPlan !== null && isLess(core.defaultPlan, before.defaultPlan);
  const less = was.map(([name]) => name);
  const all = <T>(value: T) => Object.fromEntries(less.map((name) => [name, value]));
  return {
    ...{ less, isDefaultLess },
    effective: {
      ...next,
      core: {
        ...core,
        plans: { ...core.plans, ...all(NO_METHOD) },
        defaultPlan: isDefaultLess ? null : core.defaultPlan,
      },
      methods: {
        ...methods,
        listed: { ...methods.listed, ...all({}) },
        byDefault: isDefaultLess ? {} : methods.byDefault,
      },
    },
    plans: {
      plans: { ...core.plans, ...Object.fromEntries(was) },
      defaultPlan: isDefaultLess ? before.defaultPlan : core.defaultPlan,
    },
  };
}

/** One of its levels is part of one that was, and no other one that was is part of it. */
function isLess(now: NodePlan | null, was: NodePlan): boolean {
  const isPart = (level: readonly string[], of: readonly string[]): boolean => level.every((key) => of.includes(key));
  return (now?.levels ?? []).some(
    (level) =>
      level.length > 0 &&
      was.levels.some((before) => isPart(level, before)) &&
      !was.levels.some((before) => before.length > 0 && isPart(before, level)),
  );
}

type OpenFencing = Pick<FencingRecord, 'node' | 'plan'>;

const withKept = (effective: GuardEffective, kept: GuardMethods['kept']): GuardEffective => ({
  ...effective,
  methods: { ...effective.methods, kept },
});
