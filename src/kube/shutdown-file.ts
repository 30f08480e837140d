import { isOneOf, isText, listOf, optional, orNull, shape } from '../core/shape.ts';
import { writeAtomic } from '../host/files.ts';
import { readOwnFile } from '../host/own-file.ts';
import type { PodRef } from './api-pod.ts';

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
};
type File = { readonly schema: 1; readonly bootId: string; readonly told: ToldShutdown | null };

const MODE = 0o640;
/** As many as pod-cache.ts keeps. */
const PODS_MAX = 10_000;
/** One whose mark is dropped here is uncordoned as any of this boot (undo-cordon.ts). */
export const EARLIER_MAX = 16;
const BYTES_MAX = 4 * 1024 * 1024;

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
    }),
  ),
});

/** Null: nothing was written, or this is unknown. */
export function loadTold(runtimeDirectory: string, bootId: string): ToldShutdown | null {
  const found = readOwnFile(pathIn(runtimeDirectory), (value) => (isFile(value) ? value : null), BYTES_MAX);
  return found.known && found.value?.bootId === bootId ? found.value.told : null;
}

/** Null, or why it could not be written. */
export function saveTold(runtimeDirectory: string, bootId: string, told: ToldShutdown | null): string | null {
  const file: File = { schema: 1, bootId, told };
  const done = writeAtomic(pathIn(runtimeDirectory), `${JSON.stringify(file)}\n`, MODE, 'boot');
  return done.known ? null : `${done.where}: ${done.detail}`;
}
