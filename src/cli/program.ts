import type { Command } from 'commander';
import { adoptCommand } from './adopt.ts';
import { captureCommand } from './capture.ts';
import { configCommand } from './config.ts';
import { demoCommand } from './demo.ts';
import { doctorCommand } from './doctor.ts';
import { explainCommand } from './explain.ts';
import { guardCommand } from './guard/guard.ts';
import { historyCommand } from './history.ts';
import { rehearseCommand } from './rehearse.ts';
import { releaseHeldCommand } from './release-held.ts';
import { runCommand } from './run.ts';
import { createProgram, runCommands } from './run-commands.ts';
import { simulateCommand } from './simulate.ts';
import { statusCommand } from './status.ts';
import { trialCommand } from './trial.ts';

/** For the man page and the completions, which are generated from the built commands. */
export { createProgram };

/** `runCommands` with every command. */
export function runProgram(args: readonly string[]): Promise<void> {
  return runCommands(args, allCommands());
}

export function allCommands(): readonly Command[] {
  return [
    runCommand(),
    demoCommand(),
    configCommand(),
    doctorCommand(),
    statusCommand(),
    explainCommand(),
    captureCommand(),
    simulateCommand(),
    rehearseCommand(),
    adoptCommand(),
    historyCommand(),
    guardCommand(),
    trialCommand(),
    releaseHeldCommand(),
  ];
}
