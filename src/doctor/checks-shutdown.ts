import { givenSeconds } from '../core/pod/grace.ts';
import type { PodUid } from '../core/pod/pod.ts';
import { AGENT_END_MS, totalMs } from '../core/shutdown/phase-time.ts';
import { planShutdown } from '../core/shutdown/plan.ts';
import { killedAfterMs } from '../standalone/stop/stop-timeouts.ts';
import * as say from '../words/doctor.ts';
import { NOT_ARMED, notArmed } from '../words/finding-own.ts';
import {
  agentSays,
  type Check,
  type Found,
  fine,
  found,
  foundOr,
  foundOrUnknown,
  isWhole,
  NOT_APPLICABLE,
  notHereOrUnknown,
  type Result,
  unknownBecause,
} from './check.ts';
import type { Facts, FoundPod, PodsFacts } from './facts.ts';
import { nameOf } from './look-pods.ts';

/** Not applicable if graceful shutdown is off. */
const ofPhases =
  (judge: Check['judge']) =>
  (facts: Facts, version: string): ReturnType<Check['judge']> =>
    facts.shutdown.neededMs > 0 ? judge(facts, version) : NOT_APPLICABLE;

function armed(facts: Facts): Result {
  const { status } = facts.agent;
  if (!status.known) return NOT_APPLICABLE;
  const { lock } = status.value.shutdown;
  if (lock.kind === 'armed') return fine(say.shutdownArmed(lock.neededMs, lock.grantedMs));
  // The agent raises no finding while it asks logind, or while the machine goes down.
  const here = lock.kind === 'not-armed' ? [{ text: notArmed(lock.why).text }] : [];
  const said = agentSays(facts, [NOT_ARMED]);
  return foundOr(said.length > 0 ? said : here, NOT_APPLICABLE);
}

/** An agent that has armed the shutdown has overridden every such file. One in a dry run leaves the delay as it is. */
function delay({ agent, effective, shutdown: { neededMs, grantedMs, delay: setting } }: Facts): Result {
  if (agent.status.known && agent.status.value.shutdown.lock.kind === 'armed') return NOT_APPLICABLE;
  if (!grantedMs.known) return unknownBecause(grantedMs);
  if (grantedMs.value >= neededMs) return fine(say.delayFits(neededMs));
  if (!setting.known) return unknownBecause(setting);
  const { delayMs = null, path = '' } = setting.value ?? {};
  if (delayMs !== null && delayMs < neededMs)
    return found({ text: say.delayCapped(path, delayMs, neededMs), fill: { path } });
  const isToStart = agent.isRunning === false && effective.known && !effective.value.dryRun;
  return isToStart ? fine(say.delayAtStart(grantedMs.value, neededMs)) : NOT_APPLICABLE;
}

function stopTimeouts(all: PodsFacts, { shutdown: { phases } }: Facts): Result | readonly Result[] {
  const { pods, units } = all;
  const byUid = new Map(pods.map((pod) => [pod.bound.declared.uid, pod]));
  const planned = planShutdown(
    phases,
    pods.map(({ bound }) => bound.declared),
  ).flatMap(({ stops }) => stops);
  if (!units.known) return unknownBecause(units);
  const short = planned.flatMap(({ pod: { uid }, graceSeconds }) => tooShort(byUid, uid, givenSeconds(graceSeconds)));
  const unread = pods.flatMap(({ timeout }) =>
    timeout === null || timeout.timeoutMs.known ? [] : [timeout.timeoutMs],
  );
  const orElse = isWhole(all) && pods.some(({ unit }) => unit !== null) ? fine(say.stopTimeoutsFit) : NOT_APPLICABLE;
  return foundOrUnknown(short, unread, orElse);
}

function tooShort(pods: ReadonlyMap<PodUid, FoundPod>, uid: PodUid, getsSeconds: number): readonly Found[] {
  const pod = pods.get(uid);
  if (pod === undefined || pod.timeout === null) return [];
  const { unit } = pod.timeout;
  const killedMs = killedAfterMs(pod.timeout);
  if (killedMs === null || killedMs >= getsSeconds * 1_000) return [];
  const fill = { unit, seconds: String(getsSeconds) };
  return [{ text: say.stopTimeoutShort(unit, nameOf(pod), killedMs, getsSeconds), fill }];
}

function agentStop({ shutdown: { phases, agentStopMs }, effective, agent: { service } }: Facts): Result {
  const isMissing = service.known && service.value.loadState !== 'loaded';
  if (isMissing || (effective.known && !effective.value.shutdown.secondTier)) return NOT_APPLICABLE;
  if (!agentStopMs.known) return unknownBecause(agentStopMs);
  const leftMs = Math.max(0, agentStopMs.value - AGENT_END_MS);
  const seconds = String(Math.ceil((totalMs(phases) + AGENT_END_MS) / 1_000));
  return leftMs >= totalMs(phases)
    ? fine(say.agentStopFits)
    : found({ text: say.agentStopShort(leftMs, totalMs(phases)), fill: { seconds } });
}

export const SHUTDOWN = {
  'shutdown-not-armed': {
    weight: 'warning',
    asks: 'whether logind delays a shutdown',
    mend: 'nodewarden status',
    takes: [NOT_ARMED],
    judge: ofPhases(armed),
  },
  'shutdown-delay-capped': {
    weight: 'warning',
    asks: 'whether a file caps the delay of logind below the phases',
    mend: 'systemd-analyze cat-config systemd/logind.conf',
    judge: ofPhases(delay),
  },
  'stop-timeout-short': {
    weight: 'warning',
    asks: 'whether systemd kills a pod before its phase is over',
    mend: "mkdir -p /etc/systemd/system/<unit>.d && printf '[Service]\\nTimeoutStopSec=<seconds>\\n' > /etc/systemd/system/<unit>.d/stop.conf && systemctl daemon-reload",
    judge: ofPhases((facts) =>
      facts.pods.known ? stopTimeouts(facts.pods.value, facts) : notHereOrUnknown(facts.pods),
    ),
  },
  'agent-stop-timeout-short': {
    weight: 'warning',
    asks: 'whether the agent has time for all phases without a signal from logind',
    mend: "mkdir -p /etc/systemd/system/nodewarden.service.d && printf '[Service]\\nTimeoutStopSec=<seconds>\\n' > /etc/systemd/system/nodewarden.service.d/stop.conf && systemctl daemon-reload",
    judge: ofPhases(agentStop),
  },
} satisfies { readonly [code: string]: Check };
