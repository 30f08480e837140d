import type { ContainerUsage, DiskUsage, VolumeUsage } from './pod.ts';

/**
 * All pods' directories, walked one after another. `inside`: directories of other pods that are in this one's. `ofSeveral`: these,
 * and those of its own that are, or are in, another pod's.
 */
export type DiskRound = {
  readonly number: number;
  readonly inside: readonly string[];
  readonly ofSeveral: readonly string[];
};
/** `walks`: how many walks the round had. `isWhole`: each of them was complete. */
export type WalkedRound = { readonly number: number; readonly walks: number; readonly isWhole: boolean };
export type DiskWalk = {
  readonly pod: DiskUsage;
  readonly containers: readonly Omit<ContainerUsage, 'workingSetBytes'>[];
  readonly volumes: readonly VolumeUsage[];
  /** The parts of the sum; absent: the mode names no directories. */
  readonly directories?: readonly WalkedDirectory[];
};
/** One of the requested directories, without what is below another one of them. */
export type WalkedDirectory = {
  readonly path: string;
  /** st_dev and st_ino. */
  readonly device: number;
  readonly inode: number;
  /** Includes the directory itself: `ownBytes`, and one inode. */
  readonly bytes: number;
  readonly inodes: number;
  readonly ownBytes: number;
  /** The part, without the directory itself, that was created in the last minute, if the file system records that. */
  readonly freshBytes: number;
  readonly freshInodes: number;
  /** The part that stays if the directory is removed: files known to have another name elsewhere. */
  readonly linkedBytes: number;
  readonly linkedInodes: number;
  /** Absent: not known yet. */
  readonly shared?: SharedCounts;
  /** A scratch directory, and as it is now it would not be emptied, or that is not known yet. */
  readonly staysFull?: true;
};
/** Deleted files that are held open, by st_dev, each file once. `isComplete` false: the figures mean "at least". */
export type OpenFiles = {
  readonly devices: readonly {
    readonly device: number;
    readonly bytes: number;
    readonly inodes: number;
    /** Absent: not known yet. */
    readonly shared?: SharedCounts;
  }[];
  readonly isComplete: boolean;
};
export type FileCounts = {
  readonly bytes: number;
  readonly inodes: number;
  /** As in WalkedDirectory. */
  readonly freshBytes: number;
  readonly freshInodes: number;
};
/** Files that other pods have, too: with names in their directories, or held open by their processes. */
export type SharedCounts = {
  /** Whose files these are is not known. */
  readonly unattributed: FileCounts;
  /** Known to be another pod's: only that one has them open for writing, or shares their user. */
  readonly others: FileCounts;
};
export type SharedFiles = SharedCounts & {
  readonly device: number;
  /** Of a walked directory; 0: this is about the open files. */
  readonly inode: number;
};
