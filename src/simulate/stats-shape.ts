import { isObject } from './envelope.ts';
import { count, listOf, type Place, type Shape, text, theirs, time } from './shape.ts';

const memory = theirs({ time, availableBytes: count, workingSetBytes: count });
const fs = theirs({ time, availableBytes: count, capacityBytes: count, inodesFree: count, inodes: count });
const used = theirs({ usedBytes: count, inodesUsed: count });
const workingSet = theirs({ workingSetBytes: count });
const container = theirs({ name: text, memory: workingSet, rootfs: used, logs: used }, ['name']);
const podRefTexts = theirs({ name: text, namespace: text, uid: text });

const podRef: Shape = (value, at) => {
  podRefTexts(value, at);
  const hasName = !isObject(value) || (value['name'] ?? value['uid'] ?? null) !== null;
  if (!hasName) at.mistakes.at(at.path, 'must have a name or a uid; for example {"name": "web"}');
};

const pod = theirs(
  {
    podRef,
    memory: workingSet,
    process_stats: theirs({ process_count: count }),
    'ephemeral-storage': theirs({ usedBytes: count }),
    volume: listOf(theirs({ name: text, usedBytes: count, inodesUsed: count }, ['name'])),
    containers: listOf(container),
    // Ours: what a recorded look knew of D14.
    diskRelief: theirs({
      scratchBytes: count,
      scratchInodes: count,
      deletedOpenBytes: count,
      deletedOpenInodes: count,
      grownBytes: count,
      grownInodes: count,
      writtenBytes: count,
    }),
  },
  ['podRef'],
);

const summary = theirs({
  node: theirs({
    memory,
    systemContainers: listOf(theirs({ name: text, memory })),
    fs,
    runtime: theirs({ imageFs: fs, containerFs: fs }),
    rlimit: theirs({ time, maxpid: count, curproc: count }),
  }),
  pods: listOf(pod),
});

/**
 * scenarios.md 2.5.1: the numbers, times and names of a summary that are read. A merge patch has the same shape: null
 * removes, and a list replaces the whole list before it.
 */
export function checkSummary(value: unknown, at: Place): void {
  summary(value, at);
}
