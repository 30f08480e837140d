import type { MonoMs } from '../reading.ts';
import type { Look } from './gates.ts';
import { isUnsent, powerOn } from './phases-on.ts';
import { type Fencing, nodeNamed } from './state.ts';
import {
  ask,
  DELETED,
  go,
  isOrderedOn,
  ledForMs,
  lookSince,
  nodeDeleted,
  owedOn,
  saidSince,
  stay,
  type Turned,
} from './turn.ts';

const ABORTED_MS = 60_000;
const SHOWN_MS = 3_600_000;
const OWED_AGAIN_MS = 60_000;

/** What a fencing does when no node with its uid is listed: a list may leave out one that is there. */
export function withoutNode(fencing: Fencing, look: Look): Turned {
  const turned = ofDeleted(fencing, look);
  const { why, staysOff } = turned.move?.change ?? {};
  const { record, sinceMs } = fencing;
  const isGone = lookSince({ record, observation: look.observation }, sinceMs)?.node === null;
  return isGone || (why !== DELETED && staysOff !== DELETED) ? turned : ask({ look: true });
}

/** What it does when its Node is gone: it ends, and stays visible for a while. */
function ofDeleted(fencing: Fencing, look: Look): Turned {
  const { record, sinceMs } = fencing;
  switch (record.phase) {
    case 'closed':
      return stay();
    case 'aborted':
      return until(sinceMs + ABORTED_MS, look, stay(), go('closed'));
    case 'on-sent':
    case 'booting':
      return isOrderedOn(record, look.state.nodes) ? switchedOn(fencing, look) : nodeDeleted(record);
    case 'left-off':
    case 'not-back':
      return left(fencing, look);
    default:
      return nodeDeleted(record);
  }
}

/** Closed by time alone: nobody saw it come back. */
const GONE = go('closed', { why: DELETED });

const until = (dueMs: MonoMs, { observation: { atMs } }: Look, meanwhile: Turned, then = GONE): Turned =>
  atMs < dueMs ? { ...meanwhile, dueMs } : then;

/**
 * As long as a Node that was made anew with its name does not live, its machine may be off by this fencing. Only a person may
 * switch that on: it may be another machine.
 */
function left(fencing: Fencing, look: Look): Turned {
  const { record, sinceMs, readyMs } = fencing;
  const dueMs = sinceMs + SHOWN_MS;
  if (readyMs === null) {
    return nodeNamed(look.state.nodes, record.node.name) === undefined ? until(dueMs, look, stay()) : stay();
  }
  // It may run without its storage, or on one of two supplies.
  const owed = owedOn(record);
  const isOn = saidSince({ record, state: look.state }, owed, sinceMs)?.every(({ says }) => says === 'on');
  if (isOn !== true) return until(dueMs, look, ask({ status: owed, againMs: OWED_AGAIN_MS }));
  return livesFor(readyMs, look);
}

/** By a person's order, for the Node that was made anew. */
function switchedOn(fencing: Fencing, look: Look): Turned {
  const { record, sinceMs, readyMs } = fencing;
  if (record.phase === 'on-sent') return isUnsent(fencing) ? powerOn(record, {}) : go('booting');
  return readyMs === null
    ? until(ledForMs(look.state, sinceMs, look.config.recovery.bootTimeMs), look, stay(), go('not-back'))
    : livesFor(readyMs, look);
}

function livesFor(readyMs: MonoMs, { observation: { atMs }, config }: Look): Turned {
  const dueMs = readyMs + config.recovery.stableForMs;
  return atMs < dueMs ? stay({ dueMs }) : go('closed', { why: 'made-anew' });
}
