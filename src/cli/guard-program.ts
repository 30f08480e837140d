import { Command } from 'commander';
import { guardRunCommand } from './guard-run.ts';
import { runCommands } from './run-commands.ts';

/** `guard run` alone, so that a daemon that stays in memory for years does not load the other commands. */
export function runProgram(args: readonly string[]): Promise<void> {
  return runCommands(args, [new Command('guard').addCommand(guardRunCommand())]);
}
