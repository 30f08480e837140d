import { LEASE_DURATION_MS, type LeaderLease, type LeaseWritten } from '../core/guard/leadership.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { isNumber, isText, partOf } from '../core/shape.ts';
import { type GuardWrites, LEADER_LEASE, versionOf } from './api-writes.ts';

const CONFIG_HASH = 'nodewarden.dev/guard-config';
/** For those who give orders: a guard in dry run answers none. */
const DRY_RUN = 'nodewarden.dev/guard-dry-run';
const MAX_TEXT = 500;

/** The Lease as the API has it. */
export function readLeaderLease(body: unknown): Reading<LeaderLease & { readonly isDryRun: boolean }> {
  const metadata = partOf(body, 'metadata');
  const spec = partOf(body, 'spec');
  const annotations = partOf(metadata, 'annotations');
  const version = versionOf(body);
  const transitions = spec['leaseTransitions'] ?? 0;
  if (version === null || !isNumber(transitions)) {
    return unknown('malformed', LEADER_LEASE, `what the API server has as Lease ${LEADER_LEASE} is none`);
  }
  return known({
    ...{ holder: wordOf(spec['holderIdentity']), transitions, configHash: wordOf(annotations[CONFIG_HASH]), version },
    isDryRun: annotations[DRY_RUN] === 'true',
  });
}

const wordOf = (value: unknown): string => (isText(value) ? value.slice(0, MAX_TEXT) : '');

/** One write of `stepLeadership`, and how it ended for its next step. */
export async function writeLeaderLease(
  writes: Pick<GuardWrites, 'putLease'>,
  { lease, replaces }: { readonly lease: Omit<LeaderLease, 'version'>; readonly replaces: string | null },
  { wallMs, isDryRun }: { readonly wallMs: number; readonly isDryRun: boolean },
): Promise<LeaseWritten> {
  const { holder, transitions, configHash } = lease;
  const annotations = { [CONFIG_HASH]: configHash, ...(isDryRun ? { [DRY_RUN]: 'true' } : {}) };
  const durationSeconds = LEASE_DURATION_MS / 1_000;
  const put = await writes.putLease({ holder, transitions, durationSeconds, wallMs, annotations }, replaces);
  if (put.kind !== 'stored') return { kind: put.kind === 'failed' ? 'failed' : 'conflict' };
  const read = readLeaderLease(put.body);
  return read.known ? { kind: 'stored', lease: read.value } : { kind: 'failed' };
}
