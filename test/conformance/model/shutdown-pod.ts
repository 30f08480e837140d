/** How one pod stops: shutdown-scenarios.md 2.4 and 3.2, kubelet-shutdown.md 4.6. */
import { nanoseconds } from './eviction-config.ts';
import { at, entriesOf, type Json, listOf, textOf } from './json.ts';

export const SECOND = 1_000_000_000n;
export { nanoseconds };

/** `effective` in seconds; the rest in nanoseconds after the signal, `sigtermAt` and `killedAt` the first of them. */
export type Stop = {
  readonly effective: number;
  readonly start: bigint;
  readonly sigtermAt: bigint;
  readonly killedAt: bigint | null;
  readonly stoppedAt: bigint;
};

type ContainerStop = { readonly sigtermAt: bigint; readonly killedAt: bigint | null; readonly goneAt: bigint };

const smaller = (a: bigint, b: bigint) => (a < b ? a : b);
const floor = (ns: bigint) => (ns / SECOND) * SECOND;
const last = (ends: readonly bigint[]) => ends.reduce((a, b) => (a > b ? a : b));

/** `asked` in whole seconds; nothing gets less than 1. */
export function stopOf(pod: Json, behaviour: Json, start: bigint, asked: number): Stop {
  const effective = Math.max(1, asked);
  const mains = listOf(at(pod, 'spec', 'containers')).map((one) =>
    stopContainer(one, behaviour, start, effective, null),
  );
  const sidecars = listOf(at(pod, 'spec', 'initContainers')).filter((one) => at(one, 'restartPolicy') === 'Always');
  const ended = [...mains];
  let turn = last(mains.map((one) => one.goneAt));
  for (const sidecar of sidecars.toReversed()) {
    const stop = stopContainer(sidecar, behaviour, start, effective, turn);
    ended.push(stop);
    turn = last([last(mains.map((one) => one.goneAt)), stop.goneAt]);
  }
  const kills = ended.flatMap((one) => (one.killedAt === null ? [] : [one.killedAt]));
  return {
    effective,
    start,
    sigtermAt: ended.map((one) => one.sigtermAt).reduce(smaller),
    killedAt: kills.length === 0 ? null : kills.reduce(smaller),
    stoppedAt: last(ended.map((one) => one.goneAt)),
  };
}

/** `turn` = when a sidecar may begin to stop, null for a main container. */
function stopContainer(
  container: Json,
  behaviour: Json,
  start: bigint,
  effective: number,
  turn: bigint | null,
): ContainerStop {
  const { stopAfter, preStop, killDelay } = timesOf(container, behaviour);
  let now = start;
  let rest = BigInt(effective) * SECOND;
  if (preStop !== null && rest > 0n) {
    const hook = smaller(preStop, rest);
    now += hook;
    rest -= floor(hook);
  }
  if (turn !== null && rest > 0n && turn > now) {
    const wait = smaller(turn - now, rest);
    now += wait;
    rest -= floor(wait);
  }
  if (rest < 2n * SECOND) rest = 2n * SECOND;
  if (stopAfter !== null && stopAfter <= rest) return { sigtermAt: now, killedAt: null, goneAt: now + stopAfter };
  return { sigtermAt: now, killedAt: now + rest, goneAt: now + rest + killDelay };
}

/** `stopAfter` null = never, `preStop` null = no hook. */
function timesOf(container: Json, behaviour: Json) {
  const time = (value: Json, absent: bigint) => (value === null ? absent : nanoseconds(value));
  const own = at(behaviour, 'containers', textOf(at(container, 'name'), ''));
  const replaced = own !== null && 'stopAfter' in entriesOf(own);
  const never = own === null ? at(behaviour, 'never') === true : !replaced;
  const hooked = at(container, 'lifecycle', 'preStop') !== null;
  const from = own ?? behaviour;
  return {
    stopAfter: never ? null : time(at(from, 'stopAfter'), 0n),
    preStop: hooked ? time(at(from, 'preStop'), 0n) : null,
    killDelay: time(at(behaviour, 'killDelay'), 100_000_000n),
  };
}
