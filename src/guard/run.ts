import { randomBytes } from 'node:crypto';
import type { GuardEffective } from '../config/guard/effective.ts';
import { loadGuard } from '../config/guard/load.ts';
import { whyNotNow } from '../core/guard/decide.ts';
import { type MonoMs, sayCause } from '../core/reading.ts';
import { sayProblem } from '../document/problem.ts';
import { createClock, readBootId } from '../host/clock.ts';
import { hostName } from '../host/host-name.ts';
import { createStdout } from '../host/own/stdout.ts';
import { type Notify, openNotify } from '../host/systemd/notify.ts';
import { openConnection } from '../kube/api/open-connection.ts';
import type { Clock } from '../ports.ts';
import { createFindings } from '../record/writing/findings.ts';
import { createLog } from '../record/writing/log.ts';
import {
  DEVICES_LEFT_OUT,
  devicesLeftOut,
  guardApiAway,
  guardRefused,
  NOT_STORED,
  notKept,
  notKeptId,
  notStored,
} from '../words/finding-guard.ts';
import { sayGuardStarts } from '../words/guard.ts';
import { sayEffect } from '../words/guard-effects.ts';
import { type Agents, createAgents } from './agents.ts';
import { createGuardWrites } from './api-writes.ts';
import { createAsked } from './asked.ts';
import { captureOf } from './capture.ts';
import { createGuardCounts } from './counts.ts';
import { createEffects } from './effects.ts';
import { keepHttp } from './http.ts';
import { createLeader } from './leader.ts';
import { keepLocalRecord } from './local-record.ts';
import { tellOfLooks } from './look-findings.ts';
import { type GuardLook, type GuardLoop, startLoop } from './loop.ts';
import { createOwnNode, watchNodes } from './nodes.ts';
import { createObserver } from './observe.ts';
import { createPastHour } from './past-hour.ts';
import { createGuardReload } from './reload.ts';
import { explainReport, guardReport } from './report.ts';
import type { GuardReport } from './shown.ts';
import { openStatusSocket } from './status-socket.ts';
import { watchMaps } from './stored-maps.ts';
import { watchTaintSupport } from './taint-support.ts';
import { createTeller } from './tell.ts';
import { createWitnesses } from './witness.ts';

export type GuardOptions = {
  /** Of this program. */
  readonly version: string;
  /** Null: the default path. */
  readonly configFile: string | null;
  /** Prints why it did not start. */
  readonly complain: (line: string) => void;
};

/** Agents are programs in Python, which start slowly on a busy machine. */
const FIRST_METADATA_MS = 20_000;

/** The guard, until `stop`. 0: it stopped cleanly; 2: the configuration is bad; 1: anything else. */
export async function runGuard({ version, configFile, complain }: GuardOptions, stop: AbortSignal): Promise<0 | 1 | 2> {
  const clock = createClock();
  const bootId = readBootId();
  let inForce = (): GuardEffective | null => null;
  const counts = createGuardCounts();
  const agents = createAgents({ clock, settings: () => settingsOf(inForce()), ran: counts.ran });
  const { effective, problems, warnings } = await loadGuard(configFile, agents.metadata);
  for (const problem of problems) complain(sayProblem(problem));
  if (effective === null) return 2;
  inForce = () => effective;
  const notify = openNotify(process.env, clock, complain);
  const parts = {
    version,
    clock,
    agents,
    counts,
    notify,
    configFile,
    bootId: bootId.known ? bootId.value : '',
    warnings,
  };
  try {
    const refusal = await runParts(parts, effective, (now) => (inForce = now), stop);
    if (refusal !== null) complain(refusal);
    return refusal === null ? 0 : 1;
  } catch (error) {
    complain(sayCause(error));
    return 1;
  } finally {
    notify.close();
  }
}

const settingsOf = (effective: GuardEffective | null) => ({
  deadlineMs: effective?.core.deadlineMs ?? FIRST_METADATA_MS,
  secretDirectory: effective?.secretDirectory ?? '/nonexistent',
});

type Host = {
  readonly version: string;
  readonly clock: Clock;
  readonly agents: Agents;
  readonly counts: ReturnType<typeof createGuardCounts>;
  readonly notify: Notify;
  readonly configFile: string | null;
  readonly bootId: string;
  readonly warnings: Awaited<ReturnType<typeof loadGuard>>['warnings'];
};

/** Null: it was stopped; else why it stops itself. */
async function runParts(
  { version, clock, agents, counts, notify, configFile, bootId, warnings }: Host,
  started: GuardEffective,
  inForce: (now: () => GuardEffective) => void,
  stop: AbortSignal,
): Promise<string | null> {
  const log = createLog(started.logLevel, createStdout(clock));
  const findings = createFindings({ clock, log });
  const writer = `${hostName().slice(0, 100)}-${randomBytes(6).toString('hex')}`;
  const { kubeconfig, namespace } = started.kubernetes;
  let loop: GuardLoop | null = null;
  let last: GuardLook | null = null;
  let refuse = (_why: string): void => undefined;
  const poke = (): void => loop?.poke();
  const over = new Promise<string | null>((resolve) => {
    refuse = resolve;
    stop.addEventListener('abort', () => resolve(null), { once: true });
    if (stop.aborted) resolve(null);
  });

  const reload = createGuardReload({
    ...{ clock, log, findings, file: configFile, started, metadata: agents.metadata, changed: reloaded },
    open: () => [...(last?.verdict.state.fencings.values() ?? [])].map(({ record }) => record),
    nodes: () => [...(last?.verdict.state.nodes.values() ?? [])].map(({ object }) => object.name),
  });
  function reloaded(): void {
    support?.configChanged();
    poke();
  }
  inForce(reload.inForce);
  const config = reload.inForce;
  const connection = openConnection({
    ...{ clock, findings, kubeconfig },
    words: { away: guardApiAway, refused: guardRefused },
  });
  const { get, send } = connection;
  const support =
    started.kubernetes.outOfService === 'assume'
      ? null
      : watchTaintSupport({ clock, get, findings, config, refused: (why) => refuse(why) });
  const nodes = watchNodes({ connection, clock, findings });
  const maps = watchMaps({ connection, clock, findings, namespace, changed: poke });
  const ownNode = createOwnNode({ nodes, findings, bootId, env: process.env });
  const witnesses = createWitnesses({
    ...{ clock, arrived: poke },
    addressesOf: (uid) => nodes.byUid(uid)?.kubelet ?? [],
  });
  const asked = createAsked({ connection, clock, nodes, witnesses, arrived: poke });
  const observer = createObserver({
    ...{ clock, nodes, maps, asked, self: { writer, node: ownNode } },
    leader: () => leader,
  });
  const leader = createLeader({
    ...{ connection, clock, findings, namespace, writer },
    writes: createGuardWrites({ send, namespace }),
    isDryRun: () => config().core.dryRun,
    configHash: () => config().hash,
    recordsEpoch: observer.recordsEpoch,
    changed: poke,
  });
  const effects = createEffects({
    ...{ clock, agents, config, maps, api: { get, send }, news: poke, node: ownNode },
    authorityUntilMs: () => {
      const view = leader.view();
      return view.isLeader ? view.authorityUntilMs : null;
    },
    whyNotNow: (of) =>
      last === null
        ? null
        : whyNotNow(last.verdict.state, observer.observe({ outcomes: [], answers: [] }), config().core, of),
    leftOut: (count) => (count === 0 ? findings.clear(DEVICES_LEFT_OUT) : findings.raise(devicesLeftOut(count))),
    unkept: (name, why) => (why === null ? findings.clear(notKeptId(name)) : findings.raise(notKept(name, why))),
    unstored: (records) => (records.length === 0 ? findings.clear(NOT_STORED) : findings.raise(notStored(records))),
    tell: ({ what, node, detail }) => log.warn({ event: 'fence', what, node }, sayEffect(what, node, detail)),
  });
  const tell = createTeller(log);
  const tellFindings = tellOfLooks(findings);
  const record = keepLocalRecord({ clock, findings, directory: started.stateDirectory });
  const pastHour = createPastHour();
  const pulse = createPulse(clock, notify);
  for (const { text } of warnings) log.warn({ event: 'config' }, text);
  log.info({ event: 'config', version, writer, hash: started.hash }, sayGuardStarts(started.file, started.core.dryRun));
  const report = (): GuardReport | null =>
    last === null
      ? null
      : guardReport({
          ...{ version, writer, look: last, config: config(), findings: findings.all(), nowMs: clock.monoMs() },
          ...{ holder: leader.holder(), isHolderKnown: leader.isHolderKnown(), heldBack: leader.heldBack() },
          heardMs: oldest(nodes.heardMs(), maps.heardMs()),
        });
  const socket = await openStatusSocket({
    ...{ clock, findings, path: started.socket, answer: report },
    explain: (node) => explainReport(last, node),
    observe: (forMs) => JSON.stringify(last === null ? null : captureOf(last, pastHour.hour(), forMs)),
  });
  const lookAgeMs = (): number | null => (last === null ? null : clock.monoMs() - last.observation.atMs);
  const facts = { clock, look: () => last, report, counts: counts.now, lookAgeMs };
  const http = keepHttp(started.http, facts, { clock, findings });
  loop = startLoop({
    clock,
    config: () => config().core,
    refresh: async (next) => {
      if (next !== null) asked.ask(next);
      await nodes.refresh();
    },
    observe: () => observer.observe({ outcomes: effects.outcomes(), answers: effects.answers() }),
    decided: (look) => {
      last = look;
      reload.looked();
      tellFindings(look);
      tell(look);
      record.keep(look);
      pastHour.keep(look);
      counts.decided(look);
      for (const decision of look.verdict.decisions) if (decision.kind === 'resign') leader.resign(decision.forMs);
      effects.carryOut(look.verdict, look.observation);
      pulse();
    },
  });

  const refusal = await over;
  notify.stopping();
  loop.close();
  reload.close();
  await socket.close();
  await http.close();
  await leader.close();
  await record.close();
  support?.close();
  nodes.close();
  maps.close();
  connection.close();
  findings.close();
  return refusal;
}

const oldest = (one: MonoMs | null, other: MonoMs | null): MonoMs | null =>
  one === null || other === null ? null : Math.min(one, other);

/** READY at the first look, then the watchdog's messages while looks go on. */
function createPulse(clock: Clock, notify: Notify): () => void {
  let pingedMs: number | null = null;
  return () => {
    const nowMs = clock.monoMs();
    if (pingedMs === null) notify.ready();
    if (notify.watchdogMs === null || (pingedMs !== null && nowMs - pingedMs < notify.watchdogMs)) {
      pingedMs ??= nowMs;
      return;
    }
    pingedMs = nowMs;
    notify.watchdog();
  };
}
