import { describe, expect, it } from 'vitest';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known } from '../../src/core/reading.ts';
import { addQuantity, parseQuantity } from '../../src/core/units/quantity.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { captureOf } from '../../src/record/scenarios/capture-of.ts';
import { quantityText } from '../../src/record/scenarios/scenario-pod.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { createStatsReader } from '../../src/simulate/eviction/stats.ts';
import { aConfig, anObservation, aPod, aThreshold } from '../a.ts';

function amount(text: string) {
  const parsed = parseQuantity(text);
  if (!parsed.ok) throw new Error(parsed.text);
  return parsed.quantity;
}

/** What no choice under a threshold depends on. `inherited` is in the priority. */
type LeftOut =
  | 'boundTo'
  | 'cgroupInode'
  | 'cgroupPath'
  | 'inherited'
  | 'isGraceDefault'
  | 'takesAlong'
  | 'limitSpares'
  | 'stopsAfter'
  | 'stopsAfterUnits'
  | 'leaves'
  | 'traits'
  | 'usage';

/** Required: a fact that is new in the view does not compile until it has a value here that is not the default. */
const FACTS: Required<Omit<PodView, LeftOut>> = {
  uid: '0f8fad5b-d9cb-469f-a165-70867728950e',
  namespace: 'shop',
  name: 'web',
  qos: 'Burstable',
  priority: 7,
  requests: { memoryBytes: 1_000, ephemeralStorageBytes: 0 },
  podLevelMemoryRequest: amount('1000'),
  ephemeralStorageLimit: amount('3000'),
  containers: [
    {
      name: 'main',
      kind: 'app',
      requests: { memory: amount('900'), ephemeralStorage: amount('3000') },
      limits: { memory: null, ephemeralStorage: amount('3000') },
    },
  ],
  volumes: [{ name: 'cache', sizeLimit: amount('10') }],
  tolerations: [],
  terminationGraceSeconds: 12,
  startedAtWallMs: 1_700_000_000_000,
  ownerKey: 'b6d1c0de-0000-4000-8000-000000000000',
  isDaemonSet: true,
  isStaticCritical: true,
  isProtected: true,
  evictFor: ['memory'],
  isTerminating: true,
  isDeletedByOthers: true,
  unsaid: { why: 'unreadable', priority: true, requests: false },
  limitedBy: 'looked-up',
  hasSurvived: true,
  isGuarded: true,
  diskRelief: known({
    scratch: { bytes: known(1), inodes: known(2) },
    deletedOpen: { bytes: known(3), inodes: known(4) },
    grownLastMinute: { bytes: known(5), inodes: known(6) },
    writtenBytes: known(7),
  }),
  isBetweenRuns: true,
  isStalledByOwnLimit: true,
  // A unit's name is nobody's business.
  endsMachine: { what: '', afterMs: 30_000 },
};

describe('a pod in a recorded scenario', () => {
  const limits = ['unnamed', 'maybe-empty', 'manifest-unread', 'budget-refused'] as const;
  it.each(limits)('has every fact on which a choice depends when it is read again: %s', (limitedBy) => {
    const facts = { ...FACTS, limitedBy };
    const observation = anObservation(1_000, {}, { pods: known([aPod({ ...facts, workingSetBytes: 5 })]) });
    const capture = captureOf('c-1', [{ observation, decisions: [] }], aConfig([aThreshold('memory.available', 1)]));
    const [document] = parseDocuments(JSON.stringify(capture), 'capture', 'ours').documents;
    const read = document === undefined ? null : readEvictionScenario(document);
    expect(read?.problems).toEqual([]);
    const [step] = read?.scenario?.steps ?? [];
    if (step?.stats.kind !== 'whole') throw new Error('the step has no summary');
    const { summary } = step.stats;
    expect(createStatsReader(0).viewsOf(summary, read?.scenario?.pods ?? [])).toMatchObject([facts]);
  });
});

describe('an amount in a recorded scenario', () => {
  it.each([
    ['1Gi', '512Mi', '1536Mi'],
    ['1.1Gi', '0', '1181116006400m'],
    ['1e3', '1', '1001'],
    // The kubelet prints `1` here: it has no suffix above E.
    ['999E', '1E', '1000000000000000000000'],
  ])('is the same when it is read again: %s and %s', (a, b, said) => {
    const sum = addQuantity(amount(a), amount(b));
    expect(quantityText(sum)).toBe(said);
    expect(amount(quantityText(sum)).nanos).toBe(sum.nanos);
  });
});
