import { Command } from 'commander';
import { runCommands } from '../run-commands.ts';
import { guardRunCommand } from './run.ts';

/** `guard run` alone, so that a daemon that stays in memory for years does not load the other commands. */
export function runProgram(args: readonly string[]): Promise<void> {
  return runCommands(args, [new Command('guard').addCommand(guardRunCommand())]);
}
