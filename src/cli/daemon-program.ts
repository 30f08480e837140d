import { runCommand } from './run.ts';
import { runCommands } from './run-commands.ts';

/** The program as the daemon has it in memory for years: `run`, and nothing of the other commands. */
export function runProgram(args: readonly string[]): Promise<void> {
  return runCommands(args, [runCommand()]);
}
