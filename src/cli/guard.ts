import { Command } from 'commander';
import { guardCaptureCommand } from './guard-capture.ts';
import { guardCheckCommand } from './guard-check.ts';
import { guardExplainCommand } from './guard-explain.ts';
import { guardHistoryCommand } from './guard-history.ts';
import { guardOrderCommands } from './guard-orders.ts';
import { guardRunCommand } from './guard-run.ts';
import { guardStatusCommand } from './guard-status.ts';
import { guardSimulateCommand } from './simulate.ts';

export function guardCommand(): Command {
  const guard = new Command('guard')
    .description('Fence dead machines of a cluster, or simulate what would happen')
    .addHelpText(
      'after',
      '\nExamples:\n  nodewarden guard status\n  nodewarden guard explain w3\n  nodewarden guard simulate /usr/share/nodewarden/scenarios/guard/one-machine-dies.yaml',
    )
    .addCommand(guardCheckCommand())
    .addCommand(guardRunCommand())
    .addCommand(guardStatusCommand())
    .addCommand(guardExplainCommand())
    .addCommand(guardHistoryCommand())
    .addCommand(guardSimulateCommand())
    .addCommand(guardCaptureCommand());
  for (const order of guardOrderCommands()) guard.addCommand(order);
  return guard;
}
