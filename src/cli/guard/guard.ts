import { Command } from 'commander';
import { guardSimulateCommand } from '../simulate.ts';
import { guardCaptureCommand } from './capture.ts';
import { guardCheckCommand } from './check.ts';
import { guardExplainCommand } from './explain.ts';
import { guardHistoryCommand } from './history.ts';
import { guardOrderCommands } from './orders.ts';
import { guardRunCommand } from './run.ts';
import { guardStatusCommand } from './status.ts';

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
