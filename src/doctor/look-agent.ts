import { ifKnown, known, type Reading, unknown } from '../core/reading.ts';
import type { Systemd } from '../host/systemd.ts';
import type { Clock } from '../ports.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport, type StatusReport } from '../serve/status.ts';
import type { AgentFacts, ServiceFacts } from './facts.ts';

export const SERVICE = 'nodewarden.service';
/** A running agent answers after its current look at the latest. */
const ANSWER_MS = 3_000;

/** The status that the agent reports, and its service in systemd. */
export async function lookAtAgent(socket: string, systemd: Systemd, clock: Clock): Promise<AgentFacts> {
  const [asked, service] = await Promise.all([
    askDaemon(socket, { ask: 'status' }, clock, ANSWER_MS),
    serviceFacts(systemd),
  ]);
  if (asked.kind === 'not-running')
    return { status: unknown('absent', socket, asked.detail), isRunning: false, service };
  return {
    status: asked.kind === 'answer' ? statusIn(asked.answer, socket) : unknown('unreadable', socket, asked.detail),
    isRunning: asked.kind === 'answer' ? true : null,
    service,
  };
}

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
