import { derivedUid } from '../../core/pod/spec.ts';
import { escapeUnsafe } from '../../core/units/escape.ts';
import { sayBytes } from '../../core/units/quantity.ts';
import type { Target } from '../manifests/annotation.ts';
import { readDirectories } from '../manifests/directories.ts';

/** What is known about a service, container or cgroup for which a manifest is proposed. */
export type Adopted = {
  readonly target: Target;
  readonly name: string;
  readonly role: string;
  readonly priority: number;
  /** A unit that stops along with it and has a higher priority of its own; null: none. */
  readonly priorityFrom: string | null;
  /** Null: not known. */
  readonly workingSetBytes: number | null;
  readonly peakBytes: number | null;
  /** Null: its usage is unknown. */
  readonly requestBytes: number | null;
  readonly disk: readonly string[];
  readonly scratch: readonly string[];
  /** Further notes for the reader, one line each. */
  readonly notes: readonly string[];
};

const MIB = 2 ** 20;
const STEP = 16 * MIB;
const HEADROOM = 1.25;

/** A quarter more than its highest observed usage. */
export const requestFor = (usedBytes: number): number =>
  Math.max(STEP, Math.ceil((usedBytes * HEADROOM) / STEP) * STEP);

const MAX_NAME = 63;
/** A DNS name for the pod and its file: all other characters become dashes, and a digest keeps names distinct. */
export function podNameFor(name: string): string {
  const plain = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (plain === name && plain.length <= MAX_NAME) return plain;
  const digest = derivedUid('adopt', name).slice(0, 8);
  return `${plain.slice(0, MAX_NAME - digest.length - 1).replace(/-+$/, '') || 'pod'}-${digest}`;
}

const BINDING: { readonly [K in Target['kind']]: string } = {
  unit: 'nodewarden.dev/systemd-unit',
  cgroup: 'nodewarden.dev/cgroup',
  podman: 'nodewarden.dev/podman',
};

const boundName = (target: Target): string =>
  target.kind === 'unit' ? target.unit : target.kind === 'cgroup' ? target.path : target.name;

/**
 * The text of a manifest. Names come from others: every value is quoted as in JSON, which is valid YAML, and no comment
 * can end early.
 */
export function manifestFor(adopted: Adopted): string {
  const { target, role, priority, priorityFrom, workingSetBytes, peakBytes, requestBytes, notes } = adopted;
  const said = (bytes: number | null): string => (bytes === null ? 'unknown' : sayBytes(bytes));
  const comment = (text: string): string => `# ${escapeUnsafe(text)}`;
  const disk = usable(adopted.disk);
  const scratch = usable(adopted.scratch);
  return [
    comment(
      `Proposed by nodewarden adopt: memory in use ${said(workingSetBytes)}, at most ${said(peakBytes)} with file cache.`,
    ),
    ...notes.map(comment),
    'apiVersion: v1',
    'kind: Pod',
    'metadata:',
    `  name: ${JSON.stringify(podNameFor(adopted.name))}`,
    '  annotations:',
    `    ${BINDING[target.kind]}: ${JSON.stringify(boundName(target))}`,
    ...(disk === '' ? [] : [`    nodewarden.dev/disk: ${JSON.stringify(disk)}`]),
    ...(scratch === ''
      ? []
      : [
          '    # Switch this on if these directories may be emptied after an eviction for a disk:',
          `    # nodewarden.dev/scratch: ${JSON.stringify(scratch)}`,
        ]),
    'spec:',
    `  ${comment(
      priorityFrom === null
        ? `By its role: ${role}. Among pods above their request, the lowest is evicted first.`
        : `That of ${priorityFrom}, which systemd stops along with it.`,
    )}`,
    `  priority: ${priority}`,
    '  containers:',
    '    - name: main',
    ...(requestBytes === null
      ? ['      # No request: its memory is not known, so it counts as above its request as soon as it uses any.']
      : ['      resources:', '        requests:', `          memory: ${Math.round(requestBytes / MIB)}Mi`]),
    '',
  ].join('\n');
}

/** The directories that a manifest can name, in the form of its annotation. */
function usable(directories: readonly string[]): string {
  return directories
    .filter((path) => !path.includes(',') && escapeUnsafe(path) === path && readDirectories(path).mistake === null)
    .join(',');
}
