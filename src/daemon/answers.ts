import type { Observation } from '../core/observation.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { NextLook, Verdict } from '../core/verdict.ts';
import { runOwnProgram } from '../host/own/own-program.ts';
import { groupIdOf } from '../host/own/socket-file.ts';
import type { SignalHistory } from '../serve/signal-history.ts';
import { serveSocket } from '../serve/socket.ts';
import type { NodeFacts, StatusReport } from '../serve/status.ts';
import { SOCKET, socketNotServed } from '../words/finding-own.ts';
import type { OpenParts, PartsHost } from './compose.ts';
import type { Counters } from './counters.ts';
import { createObservedLooks } from './observed-look.ts';
import { createReporter, type Daemon, nodeFacts } from './reporter.ts';
import { createWeb } from './web.ts';

/** Answers queries to the running daemon, on its socket and over HTTP. */
type Answers = {
  readonly wanted: (next: NextLook) => NextLook;
  readonly seen: (observation: Observation, verdict: Verdict) => void;
  readonly close: () => Promise<void>;
};

type AnswersHost = Pick<PartsHost, 'clock' | 'mounts'> & {
  readonly counters: Counters;
  readonly history: SignalHistory;
  readonly onReport: ((report: StatusReport) => void) | undefined;
};

const GROUP = 'nodewarden';

export async function openAnswers(host: AnswersHost, parts: OpenParts, daemon: Daemon): Promise<Answers> {
  const { clock } = host;
  const { inbox, observer, findings } = parts;
  const { effective } = daemon.loaded();
  const [sinceWallMs, sinceMs] = [clock.wallMs(), clock.monoMs()];
  const node = (): NodeFacts => ({
    ...nodeFacts(host, daemon.loaded().effective),
    sinceWallMs,
    observedForMs: clock.monoMs() - sinceMs,
  });
  const reporter = createReporter(host, parts, { ...daemon, sinceWallMs, node });
  const { withoutPods: report } = reporter;
  const web = createWeb({
    ...host,
    findings,
    report,
    page: { live: reporter.live, rehearse: () => rehearseShutdown(daemon.loaded().effective.file) },
    effective: () => daemon.loaded().effective,
  });
  const { podsNow } = observer;
  const desk = createObservedLooks({
    clock,
    wake: inbox.wake,
    node,
    config: parts.core,
    podsNow,
  });
  const serve = (): ReturnType<typeof serveSocket> =>
    serveSocket({
      clock,
      path: effective.socket,
      groupId: groupIdOf(GROUP),
      answer: () => reporter.now(),
      observe: desk.ask,
    });
  let socket = await serve();
  /** The attempt in progress to reopen the socket after it was removed or replaced. */
  let servingAgain: Promise<void> | null = null;
  let isLost = false;
  let isClosing = false;
  const tellSocket = (): void => {
    if (socket.known) findings.clear(SOCKET);
    else findings.raise(socketNotServed(socket.where, socket.detail));
  };
  tellSocket();
  const serveAgain = async (): Promise<void> => {
    const before = socket;
    socket = await serve();
    tellSocket();
    if (before.known) await before.value.close();
  };
  parts.ownFiles.alsoCheck(() => {
    // A check that runs while it closes must not open the socket again: it would answer in place of its successor.
    if (isClosing || servingAgain !== null) return;
    isLost = socket.known ? !socket.value.isThere() : isLost;
    if (!isLost) return;
    servingAgain = serveAgain().then(() => {
      servingAgain = null;
    });
  });
  let before = parts.state;
  return {
    wanted: desk.wanted,
    seen: (observation, verdict) => {
      const seen = { observation, verdict, before };
      before = verdict.state;
      reporter.seen(seen);
      desk.seen(seen);
      web.seen(observation);
    },
    close: async () => {
      isClosing = true;
      desk.close();
      await servingAgain;
      if (socket.known) await socket.value.close();
      await web.close();
    },
  };
}

/** It reads the record, up to 80 MiB, and queries systemd about each unit. */
const REHEARSE_MS = 20_000;
const REPORT_BYTES = 4 * 1024 * 1024;
/** 1: a pod cannot finish. */
const HAS_REPORT = [0, 1];

/**
 * The output of `rehearse shutdown -o json` about this agent, from a process of its own, so that no look waits for it.
 */
async function rehearseShutdown(configFile: string | null): Promise<Reading<string>> {
  const args = ['rehearse', 'shutdown', '-o', 'json', ...(configFile === null ? [] : ['--config', configFile])];
  const ran = await runOwnProgram(args, REHEARSE_MS, REPORT_BYTES);
  const where = 'nodewarden rehearse shutdown';
  if (ran.kind === 'timed-out') return unknown('timed-out', where, `not done within ${REHEARSE_MS / 1_000} s`);
  if (ran.kind === 'failed') return unknown('unreadable', where, ran.detail);
  if (!HAS_REPORT.includes(ran.code) || ran.stdout === '') return unknown('unreadable', where, ran.stderr.trim());
  return known(ran.stdout);
}
