import { type AgentMetadata, readAgentMetadata } from '../config/guard/agent-metadata.ts';
import { type LoadedGuard, loadGuard } from '../config/guard/load.ts';
import { ifKnown, known, type Reading } from '../core/reading.ts';
import { createAgents } from '../guard/agents.ts';
import { createClock } from '../host/clock.ts';

/** Agents are programs in Python, which start slowly on a busy machine. */
const DEADLINE_MS = 20_000;

/** A configuration of the guard, its agents asked for their parameters where they are installed. Nothing else is asked. */
export function loadGuardHere(file: string): Promise<LoadedGuard> {
  const agents = createAgents({
    clock: createClock(),
    settings: () => ({ deadlineMs: DEADLINE_MS, secretDirectory: '/nonexistent' }),
    parametersIn: () => known(new Set()),
  });
  return loadGuard(
    file,
    async (agent): Promise<Reading<AgentMetadata>> =>
      ifKnown(await agents.metadata(agent), (xml) => readAgentMetadata(xml, agent)),
  );
}
