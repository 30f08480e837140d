import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isText, partOf } from '../core/shape.ts';
import { pathWith } from '../kube/api/object-list.ts';
import { isBefore, type WatchConnection, watchObjects } from '../kube/api/object-watch.ts';
import type { Clock, Findings } from '../ports.ts';
import { NODES_NOT_LISTED, nodesRefused } from '../words/finding-guard.ts';
import { SILENCE_MS } from './nodes.ts';
import { mapData } from './own-map.ts';

/** A ConfigMap of the guard, as the API has it. */
export type StoredMap = {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly data: { readonly [key: string]: string };
};
export type StoredMaps = {
  /** By name; unknown while it is not known to be of now. */
  readonly all: () => Reading<ReadonlyMap<string, StoredMap>>;
  /** The same if it was listed at `sinceMs` or later; asks for that if not. */
  readonly since: (sinceMs: MonoMs) => Reading<ReadonlyMap<string, StoredMap>>;
  /** What this process wrote, as the API server answered it: it counts until a newer version is heard of. */
  readonly wrote: (map: unknown) => void;
  /** Somebody else was first, of whom nothing was heard: all is listed anew. */
  readonly overtaken: () => void;
  /** When the API server last said anything of them; null: never. */
  readonly heardMs: () => MonoMs | null;
  readonly close: () => void;
};

const LIST_DEADLINE_MS = 20_000;
/** A watch that ended is opened again within seconds. */
const STALE_MS = 15_000;
/** What is late is not listed more often than this. */
const OVERTAKEN_AGAIN_MS = 5_000;
/** What others keep in the namespace is not ours. */
const OURS = /^(?:fencing-|guard-)/;

/** The guard's own ConfigMaps: records of fencings, orders, and what outlives a leader. */
export function watchMaps(needs: {
  readonly connection: WatchConnection;
  readonly clock: Clock;
  readonly findings: Findings;
  readonly namespace: string;
  readonly changed: () => void;
}): StoredMaps {
  const { clock, findings } = needs;
  const path = `/api/v1/namespaces/${needs.namespace}/configmaps`;
  let maps = new Map<string, StoredMap>();
  let askedMs: MonoMs | null = null;
  let overtakenMs = Number.NEGATIVE_INFINITY;
  /** By name: what this process wrote since the last list was sent, which may lack it. */
  let own = new Map<string, { readonly map: StoredMap; readonly atMs: MonoMs }>();

  const isOlder = ({ metadata: { name, resourceVersion } }: StoredMap, than: Pick<typeof maps, 'get'>): boolean =>
    isBefore(resourceVersion, than.get(name)?.metadata.resourceVersion ?? null);
  const put = (map: StoredMap | null): void => {
    if (map === null || isOlder(map, maps)) return;
    maps = new Map(maps).set(map.metadata.name, map);
    needs.changed();
  };
  const watch = watchObjects<StoredMap | null>({
    ...{ connection: needs.connection, clock, from: 'newest', listDeadlineMs: LIST_DEADLINE_MS, silenceMs: SILENCE_MS },
    path: pathWith(path),
    reduce: readMap,
    replace: (all) => {
      const listed = new Map(all.flatMap((map) => (map === null ? [] : [[map.metadata.name, map]])));
      const sentMs = watch.listedMs() ?? Number.NEGATIVE_INFINITY;
      own = new Map([...own].filter(([, { map, atMs }]) => atMs >= sentMs && !isOlder(map, listed)));
      maps = new Map([...listed, ...[...own].map(([name, { map }]) => [name, map] as const)]);
      needs.changed();
    },
    put,
    remove: (map) => {
      if (map === null || isOlder(map, maps)) return;
      maps = new Map(maps);
      maps.delete(map.metadata.name);
      needs.changed();
    },
    refused: (status, detail) => findings.raise(nodesRefused('configmaps', status, detail)),
    answered: () => findings.clear(NODES_NOT_LISTED.configmaps),
    late: () => undefined,
  });

  function all(): Reading<ReadonlyMap<string, StoredMap>> {
    if (watch.listedMs() === null) return unknown('not-asked', path, watch.failure());
    const atMs = watch.atMs();
    if (atMs === null || clock.monoMs() - atMs > STALE_MS) return unknown('stale', path, watch.failure());
    return known(maps);
  }

  return {
    all,
    since: (sinceMs) => {
      const listedMs = watch.listedMs();
      if (listedMs !== null && listedMs >= sinceMs) return all();
      if (askedMs !== sinceMs) {
        askedMs = sinceMs;
        watch.relist();
      }
      return unknown('not-asked', path, 'not listed yet since this guard was elected');
    },
    wrote: (object) => {
      const map = readMap(object);
      if (map === null) return;
      own.set(map.metadata.name, { map, atMs: clock.monoMs() });
      put(map);
    },
    overtaken: () => {
      if (clock.monoMs() - overtakenMs < OVERTAKEN_AGAIN_MS) return;
      overtakenMs = clock.monoMs();
      watch.relist();
    },
    heardMs: watch.heardMs,
    close: watch.close,
  };
}

function readMap(object: unknown): StoredMap | null {
  const { name, resourceVersion } = partOf(object, 'metadata');
  if (!isText(name) || !OURS.test(name) || !isText(resourceVersion)) return null;
  return { metadata: { name, resourceVersion }, data: mapData(object) };
}
