import { isObject, isText, partOf } from '../core/shape.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { notDone } from '../kube/api/write-failure.ts';
import type { Clock } from '../ports.ts';
import {
  type GuardMap,
  type GuardWrites,
  type MapData,
  type MapLabels,
  type NotWritten,
  versionOf,
} from './api-writes.ts';

/** A ConfigMap of the guard as it is now; `version` null: there is none. */
export type OwnMap = {
  readonly kind: 'read';
  readonly data: MapData;
  readonly version: string | null;
  readonly labels: MapLabels;
};
const GET_MS = 5_000;

export type OwnMapNeeds = {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly writes: Pick<GuardWrites, 'putMap'>;
  readonly namespace: string;
  /** Asked right before each write. */
  readonly mayAct: () => boolean;
  readonly failed: (detail: string) => void;
};

/** Not from a cache. */
export async function readOwnMap(
  { get, namespace }: Pick<OwnMapNeeds, 'get' | 'namespace'>,
  name: GuardMap,
): Promise<OwnMap | NotWritten> {
  const answer = await get(`/api/v1/namespaces/${namespace}/configmaps/${name}`, GET_MS);
  if (answer.kind === 'answer' && answer.status === 404) return { kind: 'read', data: {}, version: null, labels: {} };
  const failed = notDone(answer, null);
  const body = answer.kind === 'answer' ? answer.body : null;
  const version = versionOf(body);
  if (failed !== null || version === null) {
    return { kind: 'failed', detail: failed?.text ?? `the server's answer is not the ConfigMap ${name}` };
  }
  return { kind: 'read', data: mapData(body), version, labels: labelsOf(body) };
}

function labelsOf(map: unknown): MapLabels {
  const { labels, annotations } = partOf(map, 'metadata');
  return { ...(isObject(labels) ? { labels } : {}), ...(isObject(annotations) ? { annotations } : {}) };
}

/** The texts of a ConfigMap; what is none is left out. */
export function mapData(map: unknown): MapData {
  return Object.fromEntries(
    Object.entries(partOf(map, 'data')).flatMap(([key, text]) => (isText(text) ? [[key, text]] : [])),
  );
}

/** A ConfigMap that only the leader writes, as a whole. */
export type KeptMap = {
  /** Whether `keep` would write at all now. */
  readonly isDue: () => boolean;
  /** Stores it in the background, if it is not stored so already. Call it again: what failed is tried again then. */
  readonly keep: (data: MapData) => void;
  /** Whether what was last given, or what came after it, could be stored: it is tried for as long as a person may wait. */
  readonly stored: () => Promise<boolean>;
};

const AGAIN_MS = 5_000;
/** A person waits for 30 s, and an answer is to be stored after it. */
const STORED_WITHIN_MS = 15_000;

/** `unkept`: told why it cannot be stored, which was so twice in a row; null: it is stored. */
type KeptNeeds = OwnMapNeeds & { readonly unkept: (name: GuardMap, why: string | null) => void };

/** One for each leadership: what is stored is read before it is replaced, and a foreign write since makes ours fail. */
export function createKeptMap(needs: KeptNeeds, name: GuardMap, everyMs: number): KeptMap {
  const { clock, writes, mayAct, failed } = needs;
  let stored: (Pick<OwnMap, 'version' | 'labels'> & { readonly text: string }) | null = null;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let writing: Promise<void> | null = null;
  /** The last of `given` that is not stored. */
  let latest: MapData | null = null;
  let given = 0;
  let storedGiven = 0;
  let failures = 0;

  async function put(data: MapData, mine: number): Promise<void> {
    const text = JSON.stringify(data);
    if (stored === null) {
      const read = await readOwnMap(needs, name);
      if (read.kind !== 'read') return again(read);
      stored = { ...read, text: JSON.stringify(read.data) };
    }
    if (stored.text !== text) {
      if (!mayAct()) return;
      const put = await writes.putMap(name, data, stored.version, stored.labels);
      if (put.kind !== 'stored') return again(put);
      stored = { ...stored, text, version: put.version };
    }
    notBeforeMs = clock.monoMs() + everyMs;
    storedGiven = mine;
    failures = 0;
    needs.unkept(name, null);
    if (given === mine) latest = null;
  }
  function again({ kind, detail }: NotWritten): void {
    // Whoever wrote it: it is read before the next write.
    stored = null;
    notBeforeMs = clock.monoMs() + AGAIN_MS;
    failed(`${name}: ${kind}: ${detail}`);
    if (kind === 'failed' && ++failures > 1) needs.unkept(name, detail);
  }
  function begin(data: MapData): void {
    writing = put(data, given)
      .catch((cause: unknown) => failed(`${name}: ${cause}`))
      .finally(() => {
        writing = null;
      });
  }
  const isDue = (): boolean => writing === null && clock.monoMs() >= notBeforeMs && mayAct();
  return {
    isDue,
    keep: (data) => {
      given += 1;
      latest = data;
      if (isDue()) begin(data);
    },
    stored: async () => {
      const mine = given;
      const untilMs = clock.monoMs() + STORED_WITHIN_MS;
      while (storedGiven < mine && latest !== null) {
        const leftMs = untilMs - clock.monoMs();
        if (leftMs <= 0 || !mayAct()) return false;
        if (writing === null && isDue()) begin(latest);
        await (writing ?? sleep(clock, Math.min(leftMs, notBeforeMs - clock.monoMs())));
      }
      return true;
    },
  };
}
