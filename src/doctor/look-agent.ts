import { ifKnown, known, type Reading, unknown } from '../core/reading.ts';
import type { Systemd } from '../host/systemd.ts';
import type { Clock } from '../ports.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport, type StatusReport } from '../serve/status.ts';
import type { AgentFacts, ServiceFacts } from './facts.ts';

export const SERVICE = 'nodewarden.service';
/** A running agent answers after its current look at the latest. */
const ANSWER_MS = 3_000;

/** `path` null: nothing is known about it. `isGuess`: the agent may listen elsewhere. */
export type AgentSocket = { readonly path: string | null; readonly isGuess: boolean };

/** The status that the agent reports, and its service in systemd. */
export async function lookAtAgent(socket: AgentSocket, systemd: Systemd, clock: Clock): Promise<AgentFacts> {
  const [said, service] = await Promise.all([answerOf(socket, clock), serviceFacts(systemd)]);
  return { ...said, service };
}

async function answerOf({ path, isGuess }: AgentSocket, clock: Clock): Promise<Omit<AgentFacts, 'service'>> {
  if (path === null) return { status: unknown('unreadable', 'the configuration', NO_SOCKET), isRunning: null };
  const asked = await askDaemon(path, { ask: 'status' }, clock, { answerMs: ANSWER_MS });
  if (asked.kind === 'answer') return { status: statusIn(asked.answer, path), isRunning: true };
  if (asked.kind === 'failed') return { status: unknown('unreadable', path, asked.detail), isRunning: null };
  if (!isGuess) return { status: unknown('absent', path, asked.detail), isRunning: false };
  return {
    status: unknown('unreadable', 'the configuration', `${NO_SOCKET}; nothing listens on ${path}`),
    isRunning: null,
  };
}

const NO_SOCKET = 'without it, the socket of the agent is not known';

function statusIn(answer: unknown, socket: string): Reading<StatusReport> {
  return isReport(answer) ? known(answer) : unknown('malformed', socket, 'it runs another version');
}

async function serviceFacts(systemd: Systemd): Promise<Reading<ServiceFacts>> {
  const [unit, unitFileState, end] = await Promise.all([
    systemd.unit(SERVICE),
    systemd.unitFileState(SERVICE),
    systemd.serviceEnd(SERVICE),
  ]);
  return ifKnown(unit, ({ loadState, activeState }) =>
    ifKnown(unitFileState, (state) =>
      ifKnown(end, ({ result, exitStatus }) =>
        known({ loadState, activeState, unitFileState: state, result, exitStatus }),
      ),
    ),
  );
}
