import { type LoadedGuard, loadGuard } from '../config/guard/load.ts';
import { createAgents } from '../guard/agents.ts';
import { createClock } from '../host/clock.ts';

/** Agents are programs in Python, which start slowly on a busy machine. */
const DEADLINE_MS = 20_000;

/** A configuration of the guard, its agents asked for their parameters where they are installed. Nothing else is asked. */
export function loadGuardHere(file: string): Promise<LoadedGuard> {
  const settings = () => ({ deadlineMs: DEADLINE_MS, secretDirectory: '/nonexistent' });
  return loadGuard(file, createAgents({ clock: createClock(), settings }).metadata);
}
