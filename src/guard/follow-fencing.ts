import type { FencingId, FencingRecord, Phase, RecordedStep } from '../core/guard/record.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { listObjects, pathWith } from '../kube/api/object-list.ts';
import type { Clock } from '../ports.ts';
import { readRecord, recordName } from './records.ts';

type FollowNeeds = {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly namespace: string;
  /** Called once for each of its steps, in order. */
  readonly stepped: (step: RecordedStep) => void;
};

const LOOK_MS = 1_000;
const LIST_MS = 5_000;
/** Without a new step: longer than a machine may take to boot. */
const PATIENCE_MS = 30 * 60_000;
/** It cannot be read for this long. */
const AWAY_MS = 60_000;
/** `absent`: there is no such record. `unread`: whether there is one cannot be read. `waits`: nothing more happens. */
export type NotFollowed = 'absent' | 'unread' | 'waits';

/** Here a fencing stays, until somebody sees to it. */
const ENDS: ReadonlySet<Phase> = new Set(['closed', 'aborted', 'stuck', 'left-off', 'not-back']);

/**
 * Watches the record of a fencing until it comes to an end. It is listed by its name: who gives orders may list the records,
 * and get none. Never rejects.
 */
export async function followFencing(
  id: FencingId,
  { clock, get, namespace, stepped }: FollowNeeds,
): Promise<FencingRecord | NotFollowed> {
  const path = pathWith(`/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`, {
    fieldSelector: `metadata.name=${recordName(id)}`,
  });
  let told = 0;
  let revision = -1;
  let readMs = clock.monoMs();
  let movedMs = clock.monoMs();
  for (;;) {
    const listed = await listObjects(get, path, '', LIST_MS, readRecord, () => Promise.resolve());
    const nowMs = clock.monoMs();
    const record = listed.ok ? (listed.objects.find((stored) => stored?.id === id)?.record ?? null) : null;
    if (record !== null) {
      readMs = nowMs;
      if (record.revision !== revision) movedMs = nowMs;
      revision = record.revision;
      for (const step of record.steps.slice(told)) stepped(step);
      told = Math.max(told, record.steps.length);
      if (ENDS.has(record.phase)) return record;
    }
    if (nowMs - readMs > AWAY_MS) return listed.ok ? 'absent' : 'unread';
    if (nowMs - movedMs > PATIENCE_MS) return 'waits';
    await sleep(clock, LOOK_MS);
  }
}
