import { keysOf } from '../../core/guard/config.ts';
import type { FencingRecord } from '../../core/guard/record.ts';
import type { GuardEffective } from './effective.ts';
import { canonical, type GuardMethods, methodFor, sameMethod } from './method.ts';

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
  const used = open.map(({ node: { name }, plan }) => ({
    name,
    methods: keysOf(plan).flatMap((key) => methodFor(running.methods, name, key) ?? []),
  }));
  const outdated = used.flatMap(({ name, methods }) => {
    const isOther = methods.some((was) => !sameMethod(was, methodFor(anew, name, was.key) ?? was));
    return isOther ? [name] : [];
  });
  const kept = used.map(({ name, methods }) => [
    name,
    Object.fromEntries(methods.map((method) => [method.key, method])),
  ]);
  return withKept({ ...next, core: { ...next.core, outdated } }, Object.fromEntries(kept));
}

/** What was kept for a fencing ends with it: the next one of that node is by the configuration. */
export function withoutClosed(running: GuardEffective, open: readonly Pick<OpenFencing, 'node'>[]): GuardEffective {
  const names = new Set(open.map(({ node }) => node.name));
  const { kept } = running.methods;
  if (Object.keys(kept).every((name) => names.has(name))) return running;
  const { outdated = [] } = running.core;
  const isStill = outdated.every((name) => names.has(name));
  // What is decided by is another configuration only if something in it is.
  const core = isStill ? running.core : { ...running.core, outdated: outdated.filter((name) => names.has(name)) };
  const still = Object.entries(kept).filter(([name]) => names.has(name));
  return withKept({ ...running, core }, Object.fromEntries(still));
}

type OpenFencing = Pick<FencingRecord, 'node' | 'plan'>;

const withKept = (effective: GuardEffective, kept: GuardMethods['kept']): GuardEffective => ({
  ...effective,
  methods: { ...effective.methods, kept },
});
