import type { Because, GateRow, OrderAnswer, Refusal } from '../core/guard/decision.ts';
import { sayDuration } from '../core/units/duration.ts';
import { counted, saidOf, sayCode } from './phrases.ts';

/** Why a gate of the guard is closed, and why it refuses an order, for people. */

type Compared = Pick<GateRow, 'value' | 'isAtLeast' | 'limit'>;
type Said = string | ((compared: Compared) => string);

const time = (ms: GateRow['value']): string => (typeof ms === 'number' ? sayDuration(toSecond(ms)) : `${ms}`);
const toSecond = (ms: number): number => (ms < 1_000 ? Math.round(ms) : Math.round(ms / 1_000) * 1_000);
/** A guard of an earlier version does not say whether it is exact. */
const timeSeen = ({ value, isAtLeast }: Compared): string => `${isAtLeast === true ? 'at least ' : ''}${time(value)}`;
const since =
  (what: string) =>
  ({ value, limit }: Compared) =>
    value === null ? `${what} yet` : `${what} for ${time(value)} (limit ${time(limit)})`;
const silentAfter = (what: string) => (compared: Compared) =>
  `${what}${compared.value === null ? '' : `, and it is silent for ${timeSeen(compared)}`} (plannedWait ${time(compared.limit)})`;
const SINCE_ANEW = 'since it started, or since the API server was back or a clock jumped';

const BECAUSE: { readonly [B in Because]: Said } = {
  open: 'open',
  'not-leader': 'this guard does not lead',
  'nobody-leads': ({ value }) =>
    value === 'config-differs'
      ? 'nobody leads, and this guard does not run for leadership yet: the last leader had another configuration'
      : 'nobody leads, and this guard does not run for leadership yet: its own node had fallen silent',
  authority: ({ value, limit }) => `its authority ends in ${time(value)}, and it needs ${time(limit)}`,
  'records-unknown': ({ value }) => `the records of fencings cannot be read (${value})`,
  'higher-epoch': ({ value, limit }) => `a newer leader has written (epoch ${value}, its own is ${limit})`,
  'kept-unknown': ({ value }) => `what earlier leaders kept cannot be read (${value})`,
  settling: ({ limit }) => `it decides nothing new for another ${time(limit)}`,
  paused: ({ value }) => `${value} has paused it`,
  'api-reads': since('the API server has answered no read'),
  'api-writes': since('the API server has accepted no write'),
  'no-sign-from-anybody': ({ value, limit }) =>
    value === null
      ? `this guard has seen no sign of life of any node ${SINCE_ANEW}`
      : `this guard has seen no sign of life of any node for ${time(value)} (limit ${time(limit)})`,
  'own-node': 'this guard runs on it',
  'node-deleted': 'its Node is deleted',
  'lives-as': ({ value }) =>
    `its machine may be that of ${value}, which is not dead, or is held or fenced itself: if it was renamed or installed anew, delete this Node`,
  leaving: ({ value }) => `its Node is about to be deleted (${value})`,
  excluded: 'a label excludes it',
  skip: 'its annotation asks the guard to leave it alone',
  'control-plane': 'control-plane nodes are never fenced (controlPlane: never)',
  'outside-nodes': 'it is not one of the nodes that may be fenced (nodes)',
  'other-owner': ({ value }) => `somebody else fences it (${value})`,
  'unreadable-record': ({ value }) => `a record of its fencings cannot be read (fencing-${value})`,
  agent: silentAfter('its agent announced a shutdown'),
  kubelet: silentAfter('its kubelet announced a shutdown'),
  kured: silentAfter('kured announced a reboot'),
  cordon: silentAfter('it was cordoned'),
  'no-age': `this guard has seen no sign of life of it ${SINCE_ANEW}`,
  'no-lease': 'it has no lease that is renewed, so that nobody can tell whether it lives',
  'not-silent-enough': (compared) => `it is silent for ${timeSeen(compared)} (limit ${time(compared.limit)})`,
  'seen-once': (compared) => `it is silent for ${timeSeen(compared)}, and has to be seen so at a second look`,
  'may-be-booting': (compared) =>
    `one of its devices said off, or nothing, and has said on for ${timeSeen(compared)}: it may be booting (bootTime ${time(compared.limit)})`,
  'witness-unknown': ({ value }) => `whether its kubelet answers is unknown (${value})`,
  'kubelet-answers': 'its kubelet answers',
  'kubelet-answered': (compared) =>
    `its kubelet has not answered for ${timeSeen(compared)} (limit ${time(compared.limit)})`,
  'kubelet-unheard':
    'this guard was elected less than deadAfter ago, and does not know whether its kubelet has answered within that time',
  'stuck-unknown': ({ value }) => `what has to be freed is unknown (${value})`,
  'nothing-to-free': 'there is nothing to free',
  'no-method': 'it has no fencing device',
  silent: ({ limit }) =>
    limit === 1 ? 'its devices do not all answer' : `on none of ${limit} levels do all of its devices answer`,
  'not-asked':
    'its devices have not been asked within the last 30s, or have not answered yet; they are asked before it is fenced',
  'too-slow': ({ value, limit }) =>
    `one of its devices took ${time(value)} to say whether the machine is on, and ${time(limit)} is the most for a proof`,
  contradicted: 'one of its devices said what cannot be true, and is not believed',
  'never-on': 'one of its devices has never said on, so its off proves nothing',
  'not-rehearsed': 'it was never rehearsed (requireRehearsal)',
  cluster: 'too many nodes are silent (maxUnhealthy)',
  domain: 'too many nodes of its failure domain are silent (domainShare)',
  burst: 'it fell silent together with others (burst)',
  all: 'no node is healthy',
  'cool-down': (compared) => `a storm ended ${timeSeen(compared)} ago (coolDown ${time(compared.limit)})`,
  'max-in-flight': ({ value, limit }) => `${counted(Number(value), 'fencing')} under way (maxInFlight ${limit})`,
  'another-control-plane': 'another control-plane node is not healthy',
  'control-plane-majority': ({ value, limit }) =>
    `${counted(Number(value), 'control-plane node')} would be healthy, fewer than the majority of ${limit}`,
  'min-interval': (compared) =>
    `the last power-off, decided or done, real or in dry run, was ${timeSeen(compared)} ago (minInterval ${time(compared.limit)})`,
  'max-per-hour': ({ value, limit }) =>
    `${counted(Number(value), 'power-off')}, decided or done, real or in dry run, within an hour (maxPerHour ${limit})`,
};

const REFUSAL: { readonly [R in Refusal]: string } = {
  stale: 'it was written for another guard, or too long ago; give it again',
  'no-by': 'it does not say who gives it',
  'unknown-verb': 'it is none that this guard knows',
  'more-than-2h': 'it is to last for longer than 2h',
  'no-such-node': 'there is no such node',
  'no-such-domain': 'no node is in such a failure domain (domainLabels)',
  'dry-run': 'this guard is in dry run',
  'already-open': 'a fencing of this node is open already',
  'not-ready': 'the node is not Ready',
  'not-cordoned': 'the node is not cordoned',
  'not-drained': 'the node is not drained',
  'not-checked': 'the name that was checked is another one',
  alive: 'the node gives signs of life',
  'device-says-on': 'a device of the node says on',
  'no-fencing': 'no fencing of this node is open',
  'wrong-phase': 'its fencing is in a phase that has no use for it',
  'not-known-in-time': 'what has to be known first was not known in time',
  'not-stored': 'it could not be stored, so that it would be forgotten',
};

/** The deciding gate in words, with what was compared. */
export function sayGateRow(row: GateRow): string {
  const said = BECAUSE[row.because];
  return typeof said === 'string' ? said : said(row);
}

export function sayOrderAnswer(answer: OrderAnswer): string {
  if (answer.isAccepted) return 'accepted';
  const { why, gate } = answer;
  return `refused: ${sayRefusal(why)}${gate === null ? '' : ` (gate ${gate})`}`;
}

/** An answer has no figures: a sentence that compares some is cut down to what it compares. */
function sayRefusal(why: Because | Refusal): string {
  return saidOf<string>(REFUSAL, why) ?? sayBecause(why);
}

/** A code of a gate without what it compared; another text, as it is. */
export function sayBecause(why: string): string {
  const said = saidOf(BECAUSE, why);
  return typeof said === 'string' ? said : sayCode(why);
}
