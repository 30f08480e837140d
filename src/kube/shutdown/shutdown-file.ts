import { isNumber, isOneOf, isText, listOf, optional, orNull, shape } from '../../core/shape.ts';
import { writeAtomic } from '../../host/files.ts';
import { readOwnFile } from '../../host/own/own-file.ts';
import type { PodRef } from '../api/api-pod.ts';

/**
 * A pod that a shutdown asked the API to delete. `owner`: the controller that replaces it. `isAccepted` absent: the answer is
 * not known.
 */
type DeletedPod = PodRef & { readonly owner: string | null; readonly isAccepted?: true };
/** What a shutdown of this boot has written to the API, until it is undone. */
export type ToldShutdown = {
  /**
   * Names its mark on the node (A15). Each shutdown has its own: setting it changes the node, so that what was sent to take
   * back an earlier one is refused, however late it arrives (A14).
   */
  readonly shutdownId: string;
  /** Of earlier shutdowns, whose marks may still be on the node: newest first, at most 16. Absent: none. */
  readonly earlierIds?: readonly string[];
  readonly deleted: readonly DeletedPod[];
  /** No cordon was requested, because the API was away. */
  readonly isUncordoned?: true;
  /** How long this shutdown takes in total, while its cordon is still to be requested once the API is back. */
  readonly toCordonMs?: number;
};
/** `leaving`: deleted by earlier shutdowns, while they may still be there. Absent: none. */
export type Told = { readonly told: ToldShutdown | null; readonly leaving?: readonly DeletedPod[] };
type File = Told & { readonly schema: 1; readonly bootId: string };

const MODE = 0o640;
/** As many as pod-cache.ts keeps. */
const PODS_MAX = 10_000;
/** One whose mark is dropped here is uncordoned as any of this boot (undo-cordon.ts). */
export const EARLIER_MAX = 16;
const BYTES_MAX = 8 * 1024 * 1024;

const pathIn = (runtimeDirectory: string): string => `${runtimeDirectory}/kube-shutdown.json`;
const isDeleted = shape<DeletedPod>({
  namespace: isText,
  name: isText,
  uid: isText,
  owner: orNull(isText),
  isAccepted: optional(isOneOf(true)),
});
const isFile = shape<File>({
  schema: isOneOf(1),
  bootId: isText,
  told: orNull(
    shape<ToldShutdown>({
      shutdownId: isText,
      earlierIds: optional(listOf(isText, EARLIER_MAX)),
      deleted: listOf(isDeleted, PODS_MAX),
      isUncordoned: optional(isOneOf(true)),
      toCordonMs: optional(isNumber),
    }),
  ),
  leaving: optional(listOf(isDeleted, PODS_MAX)),
});

/** Nothing was written, or this is unknown: null, and none leaving. */
export function loadTold(runtimeDirectory: string, bootId: string): Required<Told> {
  const found = readOwnFile(pathIn(runtimeDirectory), (value) => (isFile(value) ? value : null), BYTES_MAX);
  const { told, leaving = [] } = found.known && found.value?.bootId === bootId ? found.value : { told: null };
  return { told, leaving };
}

/** Null, or why it could not be written. */
export function saveTold(runtimeDirectory: string, bootId: string, { told, leaving }: Required<Told>): string | null {
  const kept = leaving.length === 0 ? {} : { leaving: leaving.slice(-PODS_MAX) };
  const file: File = { schema: 1, bootId, told, ...kept };
  const done = writeAtomic(pathIn(runtimeDirectory), `${JSON.stringify(file)}\n`, MODE, 'boot');
  return done.known ? null : `${done.where}: ${done.detail}`;
}
