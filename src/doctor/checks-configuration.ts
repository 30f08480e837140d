import type { Effective } from '../config/effective.ts';
import { beyondReachOf, isBeyondThreshold, nodeOf, sayBeyondReach } from '../config/kernel-first.ts';
import { resolve } from '../core/eviction/thresholds-met.ts';
import { podName } from '../core/pod/pod.ts';
import { unknown } from '../core/reading.ts';
import { bytesUp } from '../core/units/quantity.ts';
import { sayProblem } from '../document/problem.ts';
import * as say from '../words/doctor.ts';
import {
  MANIFEST,
  MANIFEST_DOUBT,
  MANIFESTS,
  manifestsUnreadable,
  noManifestDirectory,
} from '../words/finding-standalone.ts';
import {
  agentSays,
  type Check,
  type Found,
  fine,
  found,
  foundOr,
  foundOrUnknown,
  isTaken,
  NO_SIZE,
  NOT_APPLICABLE,
  notHereOrUnknown,
  type Result,
  unknownBecause,
} from './check.ts';
import type { Facts, PodsFacts } from './facts.ts';

const CHECK = 'nodewarden config check';

/** The warnings of `config check` with this code. */
function warned(
  { warnings, problems, unread }: Facts,
  code: Facts['warnings'][number]['code'],
  orElse: Result = NOT_APPLICABLE,
): readonly Result[] {
  if (problems.length > 0) return [NOT_APPLICABLE];
  const all = warnings.filter((warning) => warning.code === code).map(({ code: _, ...warning }) => warning);
  const missing = unread.filter((one) => one.code === code).map(({ why }) => why);
  return foundOrUnknown(all, missing, orElse);
}

const MANIFEST_FINDINGS = [MANIFESTS, MANIFEST, 'manifest-twice/'];

/** From the agent if it can be asked, because it may use a last good version; else from the files. */
export function manifestFindings(facts: Facts, takes: readonly string[]): readonly Found[] {
  if (facts.agent.status.known) return agentSays(facts, takes);
  const findings = facts.pods.known ? facts.pods.value.findings : [];
  return findings.filter((finding) => isTaken(finding, takes)).map(({ text }) => ({ text }));
}

const memoryThresholds = ({ thresholds }: Effective) =>
  thresholds.filter(({ signal }) => signal === 'memory.available');

function ofNode(effective: Effective, facts: Facts): readonly Result[] {
  const { sizes } = facts.host;
  const beyond = beyondReachOf(effective, sizes);
  const above = sizes.node(nodeOf(effective))?.limitAbove;
  if (above?.known === false) return [...warned(facts, 'kernel-first'), unknownBecause(above)];
  if (!beyond.known) return [...warned(facts, 'kernel-first'), notHereOrUnknown(beyond)];
  if (sizes.memoryBytes === null) return [unknownBecause(NO_SIZE)];
  return warned(facts, 'kernel-first', fine(say.agentBeforeKernel(sayBeyondReach(beyond.value))));
}

/** Limits that pods share, and that the kernel enforces before the last threshold is met. Null: there is none. */
function limitsFirst(effective: Effective, { pods, host }: Facts): Result | null {
  const capacityBytes = host.sizes.node(nodeOf(effective))?.memoryBytes ?? null;
  if (!pods.known || capacityBytes === null) return null;
  const { sharedLimits, pods: all, unread } = pods.value;
  if (!sharedLimits.known) return unknownBecause(sharedLimits);
  const thresholdBytes = memoryThresholds(effective).map(({ value }) => bytesUp(resolve(value, capacityBytes)));
  const lowestBytes = Math.min(...thresholdBytes.filter((bytes) => bytes > 0));
  const located = all.filter(({ bound }) => bound.cgroup.known).length;
  const first = sharedLimits.value
    .filter(({ bytes }) => bytes < capacityBytes && isBeyondThreshold(lowestBytes, capacityBytes - bytes))
    .map(({ path, bytes, pods: names }) => ({
      text: say.sharedLimit(path, bytes, names, names.length === located && unread.length === 0),
      mend: 'systemd-cgls <cgroup>',
      fill: { cgroup: path },
    }));
  return first.length === 0 ? null : found(...first);
}

/** A pod that requests more than there is never exceeds it, and others are evicted in its place. */
function beyondNode({ declared }: PodsFacts, { host, effective }: Facts): readonly Found[] {
  const node = effective.known ? host.sizes.node(nodeOf(effective.value)) : null;
  const capacityBytes = node?.memoryBytes ?? host.sizes.memoryBytes;
  if (capacityBytes === null) return [];
  return declared
    .filter(({ requests }) => requests.memoryBytes > capacityBytes)
    .map((pod) => ({ text: say.requestsMore(podName(pod), capacityBytes) }));
}

export const CONFIGURATION = {
  'config-invalid': {
    weight: 'blocking',
    asks: 'whether the configuration is valid',
    mend: CHECK,
    judge: ({ problems, effective }) => {
      const mistakes = problems.filter(({ isDenied }) => !isDenied);
      const unread = problems
        .filter(({ isDenied }) => isDenied)
        .map(({ file, text }) => unknown('unreadable', file, text));
      const orElse = fine(say.configValid(effective.known ? effective.value.file : null));
      return foundOrUnknown(
        mistakes.map((problem) => ({ text: sayProblem(problem) })),
        unread,
        orElse,
      );
    },
  },
  'manifest-invalid': {
    weight: 'blocking',
    asks: 'whether the manifests are valid',
    mend: CHECK,
    takes: MANIFEST_FINDINGS,
    judge: (facts) => {
      const { pods, effective } = facts;
      if (!pods.known) return notHereOrUnknown(pods);
      const directory = effective.known ? effective.value.podManifests : '';
      const missing = manifestsUnreadable(noManifestDirectory(directory)).text;
      const all = manifestFindings(facts, MANIFEST_FINDINGS).map((one) =>
        one.text === missing ? { ...one, mend: 'mkdir -p <directory>', fill: { directory } } : one,
      );
      return foundOrUnknown(all, pods.value.unread, fine(say.manifestsValid(directory, pods.value.declared.length)));
    },
  },
  'manifest-warning': {
    weight: 'warning',
    asks: 'whether the manifests say what was probably intended',
    mend: CHECK,
    takes: [MANIFEST_DOUBT],
    judge: (facts) => {
      if (!facts.pods.known) return notHereOrUnknown(facts.pods);
      const all = [...manifestFindings(facts, [MANIFEST_DOUBT]), ...beyondNode(facts.pods.value, facts)];
      return foundOr(all, NOT_APPLICABLE);
    },
  },
  'no-threshold': {
    weight: 'blocking',
    asks: 'whether there is a threshold',
    mend: 'nodewarden config show',
    judge: (facts) => warned(facts, 'no-threshold'),
  },
  'threshold-met': {
    weight: 'warning',
    asks: 'whether a threshold is met already',
    mend: 'nodewarden explain',
    judge: (facts) => warned(facts, 'threshold-met'),
  },
  'path-missing': {
    weight: 'warning',
    asks: 'whether the configured paths exist',
    mend: CHECK,
    judge: (facts) => warned(facts, 'path-missing'),
  },
  'program-unsafe': {
    weight: 'warning',
    asks: 'whether the programs that root runs for the agent are safe',
    mend: 'namei -l <program>',
    judge: (facts) => warned(facts, 'program-unsafe'),
  },
  'no-pid-threshold': {
    weight: 'warning',
    asks: 'whether a fork bomb would be stopped',
    mend: CHECK,
    judge: (facts) => warned(facts, 'no-pid-threshold'),
  },
  'kernel-first': {
    weight: 'warning',
    asks: "whether the kernel's OOM killer acts before a threshold is met",
    mend: CHECK,
    judge: (facts) => {
      const { effective, problems } = facts;
      if (problems.length > 0 || !effective.known) return NOT_APPLICABLE;
      if (memoryThresholds(effective.value).length === 0) return NOT_APPLICABLE;
      const inPods = limitsFirst(effective.value, facts);
      // What is so of the node is not fine while it is otherwise among its pods.
      return [
        ...ofNode(effective.value, facts).filter(({ kind }) => kind !== 'fine' || inPods === null),
        ...(inPods === null ? [] : [inPods]),
      ];
    },
  },
  'swap-off': {
    weight: 'warning',
    asks: 'whether a swap threshold has an effect',
    mend: 'swapon --show',
    judge: (facts) => warned(facts, 'swap-off'),
  },
  'psi-off': {
    weight: 'warning',
    asks: 'whether the kernel counts stalls',
    mend: 'cat /proc/pressure/memory /proc/cmdline',
    judge: (facts) => {
      const { hasMemoryPressure } = facts.host.sizes;
      if (hasMemoryPressure === null)
        return unknownBecause(unknown('unreadable', '/proc/pressure/memory', 'not readable'));
      if (hasMemoryPressure) return fine(say.psiOn);
      return warned(facts, 'psi-off', found({ text: say.psiOff }));
    },
  },
  'config-warning': {
    weight: 'warning',
    asks: 'whether the configuration says what was probably intended',
    mend: CHECK,
    judge: (facts) => warned(facts, 'config-warning'),
  },
} satisfies { readonly [code: string]: Check };
