import type { Reading } from '../../core/reading.ts';

/** A container of the runtime, by its CRI labels (beside-a-kubelet.md D12). `podUid` is the kubelet's. */
export type RuntimeContainer = {
  readonly id: string;
  readonly name: string;
  readonly podUid: string;
  readonly sandboxId: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  readonly createdAtWallMs: number;
  readonly image: { readonly ref: string; readonly id: string };
};
export type RuntimeSandbox = {
  readonly id: string;
  readonly podUid: string;
  readonly namespace: string;
  readonly name: string;
  readonly isReady: boolean;
  /** `kubernetes.io/config.source`: `file` means a static pod; null: not reported. */
  readonly source: string | null;
};
export type RuntimeFacts = {
  readonly containers: readonly RuntimeContainer[];
  readonly sandboxes: readonly RuntimeSandbox[];
  readonly atMs: number;
};
/** Where the runtime keeps images and writable layers, from ImageFsInfo (D13). */
export type RuntimeFilesystems = { readonly imagefs: string; readonly containerfs: string | null };
/** The container runtime over CRI. Every call has a deadline of its own and never rejects. */
export type Runtime = {
  /** From the last answer; unknown until there is one. */
  readonly facts: () => Reading<RuntimeFacts>;
  /** Queries again, at most once at a time; resolves with the result. */
  readonly refresh: () => Promise<Reading<RuntimeFacts>>;
  readonly filesystems: () => Reading<RuntimeFilesystems>;
  /** From RuntimeConfig; unknown if the runtime does not implement it (D7). */
  readonly cgroupDriver: () => Reading<'cgroupfs' | 'systemd'>;
  readonly close: () => void;
};
