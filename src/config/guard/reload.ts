import { keysOf } from '../../core/guard/config.ts';
import type { FencingRecord } from '../../core/guard/record.ts';
import type { GuardEffective } from './effective.ts';
import { canonical, methodFor } from './method.ts';

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
export function reloaded(
  running: GuardEffective,
  next: GuardEffective,
  open: readonly Pick<FencingRecord, 'node' | 'plan'>[],
): GuardEffective {
  const kept = open.map(({ node: { name }, plan }) => {
    const methods = keysOf(plan).map((key) => methodFor(running.methods, name, key));
    return [name, Object.fromEntries(methods.flatMap((method) => (method === null ? [] : [[method.key, method]])))];
  });
  return { ...next, methods: { ...next.methods, kept: Object.fromEntries(kept) } };
}
