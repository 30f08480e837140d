import { type Resource, SIGNAL_FACTS, type Signal } from '../signal.ts';

/** The annotation that names the resources for which its pod may be chosen. */
export const EVICT_FOR = 'nodewarden.dev/evict-for';
export const EVICT_RESOURCES = ['memory', 'disk', 'pids'] as const;
/** Swap and stalls are memory; bytes and inodes of every file system are disk. */
export type EvictResource = (typeof EVICT_RESOURCES)[number];

const EVICT_RESOURCE: { readonly [R in Resource]: EvictResource } = {
  memory: 'memory',
  'ephemeral-storage': 'disk',
  inodes: 'disk',
  pids: 'pids',
};
export const evictResourceOf = (signal: Signal): EvictResource => EVICT_RESOURCE[SIGNAL_FACTS[signal].resource];

const NONE = 'none';

/** Null: neither `none` nor a comma-separated list of resources. */
export function parseEvictFor(text: string): readonly EvictResource[] | null {
  if (text.trim() === NONE) return [];
  const names = text.split(',').map((name) => name.trim());
  const isKnown = (name: string): boolean => (EVICT_RESOURCES as readonly string[]).includes(name);
  return names.every(isKnown) ? EVICT_RESOURCES.filter((resource) => names.includes(resource)) : null;
}

/** In the form of the annotation. */
export const sayEvictFor = (resources: readonly EvictResource[]): string =>
  resources.length === 0 ? NONE : resources.join(',');

/** Whether the pod may be chosen for the signal. `evictFor` absent: for all. */
export function mayGoFor({ evictFor }: { readonly evictFor?: readonly EvictResource[] }, signal: Signal): boolean {
  return evictFor === undefined || evictFor.includes(evictResourceOf(signal));
}
