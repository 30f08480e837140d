import { Command } from 'commander';
import { guardSimulateCommand } from './simulate.ts';

export function guardCommand(): Command {
  return new Command('guard')
    .description('Try what the guard of a cluster would do when machines die')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard simulate /usr/share/nodewarden/scenarios/guard/one-machine-dies.yaml',
    )
    .addCommand(guardSimulateCommand());
}
