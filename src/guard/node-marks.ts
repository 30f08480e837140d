import type { Act } from '../core/guard/decision.ts';
import type { ActResult } from '../core/guard/observation.ts';
import type { FencingId, NodeRef } from '../core/guard/record.ts';
import { isText, objectsIn, partOf } from '../core/shape.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { notDone } from '../kube/api/write-failure.ts';
import { mustBeNodeName } from '../kube/api/write-rules.ts';
import type { Clock } from '../ports.ts';
import { sayFenced } from '../words/guard-effects.ts';
import { FENCED_CONDITION, type GuardWrites, type MarkChange, type NotWritten, type SeenNode } from './api-writes.ts';

export type NodeMarks = {
  /** Both taints in one locked patch; the condition follows, and nothing waits for it. */
  readonly tell: (node: NodeRef, id: FencingId, act: Extract<Act, { kind: 'tell' }>) => Promise<ActResult>;
  /** Gone already is done. */
  readonly untell: (node: NodeRef, id: FencingId) => Promise<ActResult>;
  /** What frees pods goes first, what shows that there is something left to clear goes last. */
  readonly clear: (node: NodeRef, id: FencingId) => Promise<ActResult>;
};
export type MarkNeeds = {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly writes: Pick<GuardWrites, 'changeMarks' | 'setFenced'>;
  /** Asked right before each write. */
  readonly mayAct: () => boolean;
  /** A condition could not be set: it shows less, and nothing depends on it. */
  readonly unsaid: (node: NodeRef, detail: string) => void;
};

const GET_MS = 5_000;
const TRIES = 5;
const JITTER_MS = 50;
const ENDED = { kind: 'not-begun', detail: 'authority has ended' } as const;
const PATCHED: ActResult = { kind: 'patched' };

/** The marks of fencings on Nodes (guard.md 9.1). Nothing rejects. */
export function createNodeMarks({ clock, get, writes, mayAct, unsaid }: MarkNeeds): NodeMarks {
  /** By node uid: a condition that is being set. */
  const setting = new Map<string, Promise<void>>();

  async function look({ name, uid }: NodeRef): Promise<Seen | Failed> {
    mustBeNodeName(name);
    const answer = await get(`/api/v1/nodes/${name}`, GET_MS);
    const failed = notDone(answer, null);
    if (answer.kind !== 'answer' || failed !== null) {
      const why = answer.kind === 'answer' && answer.status === 404 ? 'gone' : 'error';
      return { kind: 'failed', why, detail: failed?.text ?? '' };
    }
    const seen = seenIn(answer.body, name);
    if (seen === null) return { kind: 'failed', why: 'error', detail: `the server's answer is not the node ${name}` };
    if (seen.uid !== uid) return { kind: 'failed', why: 'gone', detail: `another Node has the name ${name} by now` };
    return seen;
  }

  /** Read, changed and written back, again while somebody else writes in between. */
  async function remove(node: NodeRef, id: FencingId, change: MarkChange): Promise<ActResult> {
    for (let tried = 1; ; tried++) {
      const seen = await look(node);
      if (seen.kind === 'failed') return seen;
      if (!mayAct()) return ENDED;
      const written = await writes.changeMarks(seen, change, id);
      if (written.kind === 'done' || written.kind === 'unchanged') return PATCHED;
      if (written.kind !== 'conflict' || tried === TRIES) return failedBy(written);
      await sleep(clock, JITTER_MS * tried * (0.5 + Math.random()));
    }
  }

  async function setFenced(node: NodeRef, id: FencingId): Promise<void> {
    const written = mayAct() ? await writes.setFenced(node, { message: sayFenced(id), wallMs: clock.wallMs() }) : ENDED;
    if (written.kind !== 'done') unsaid(node, written.detail);
  }

  async function removeFenced(node: NodeRef, id: FencingId): Promise<ActResult> {
    await setting.get(node.uid);
    const seen = await look(node);
    if (seen.kind === 'failed') return seen;
    if (seen.fenced !== sayFenced(id)) return PATCHED;
    if (!mayAct()) return ENDED;
    const written = await writes.setFenced(node, null);
    return written.kind === 'done' ? PATCHED : failedBy(written);
  }

  return {
    tell: async (node, id, { resourceVersion, notAfterMs }) => {
      const seen = await look(node);
      if (seen.kind === 'failed') return seen;
      if (seen.version !== resourceVersion) {
        return { kind: 'failed', why: 'conflict', detail: 'the Node has changed since it was looked at' };
      }
      if (!mayAct()) return ENDED;
      if (clock.monoMs() > notAfterMs) return { kind: 'not-begun', detail: 'the proof was too old by then' };
      const written = await writes.changeMarks(seen, 'tell', id);
      if (written.kind !== 'done' && written.kind !== 'unchanged') return failedBy(written);
      const done = setFenced(node, id).finally(() => setting.delete(node.uid));
      setting.set(node.uid, done);
      return PATCHED;
    },
    untell: (node, id) => remove(node, id, 'untell'),
    clear: async (node, id) => {
      for (const step of [
        () => remove(node, id, 'untell'),
        () => removeFenced(node, id),
        () => remove(node, id, 'unfence'),
      ]) {
        const result = await step();
        if (result.kind !== 'patched') return result;
      }
      return PATCHED;
    },
  };
}

type Failed = Extract<ActResult, { kind: 'failed' }>;
type Seen = SeenNode & {
  readonly kind: 'node';
  /** The message of its condition NodewardenFenced; null: it has none. */
  readonly fenced: string | null;
};

function failedBy({ kind, detail }: NotWritten): Failed {
  return { kind: 'failed', why: kind === 'failed' ? 'error' : kind, detail };
}

function seenIn(body: unknown, name: string): Seen | null {
  const metadata = partOf(body, 'metadata');
  const { uid, resourceVersion } = metadata;
  if (metadata['name'] !== name || !isText(uid) || uid === '' || !isText(resourceVersion) || resourceVersion === '') {
    return null;
  }
  const fenced = objectsIn(partOf(body, 'status')['conditions']).find(({ type }) => type === FENCED_CONDITION);
  const message = fenced?.['message'];
  return {
    ...{ kind: 'node', name, uid, version: resourceVersion, taints: objectsIn(partOf(body, 'spec')['taints']) },
    fenced: fenced === undefined ? null : isText(message) ? message : '',
  };
}
