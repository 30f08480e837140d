import type { ProcessView } from '../core/pod/pod.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayBytes } from '../core/units/quantity.ts';

/** A process of a victim that lives outside its cgroup. `owner`: the pod or unit whose cgroup that is; null: nobody's. */
export type Escapee = ProcessView & { readonly path: string; readonly owner: string | null };

const SHOWN = 5;
const countProcesses = (count: number): string => `${count} ${count === 1 ? 'process' : 'processes'}`;

export function sayKilledOutside(killed: readonly Escapee[]): string {
  return `${countProcesses(killed.length)} had left its cgroup and got SIGKILL there: ${sayAll(killed)}`;
}

/** `chargedBytes`: what is still charged to its empty cgroup. */
export function sayEscaped(escapees: readonly Escapee[], path: string, chargedBytes: number): string {
  const charged = `${sayBytes(chargedBytes)} charged to ${escapeUnsafe(path)} are still in use`;
  if (escapees.length === 0)
    return `no process is left in its cgroup, but ${charged}, by processes that left it unseen; ${HELD}`;
  const live = escapees.length === 1 ? 'lives' : 'live';
  return `${countProcesses(escapees.length)} that left its cgroup ${live} on: ${sayAll(escapees)}; ${HELD}`;
}
const HELD = 'until that ends, no pod is evicted for it that is not known to be the cause';

function sayAll(escapees: readonly Escapee[]): string {
  const said = escapees.slice(0, SHOWN).map(({ pid, name, rssBytes, path, owner }) => {
    const whose = owner === null ? '' : `, which belongs to ${owner}: not killed there`;
    return escapeUnsafe(`process ${pid} (${name}, ${sayBytes(rssBytes)}) in ${path}${whose}`);
  });
  const more = escapees.length - said.length;
  return [...said, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}
