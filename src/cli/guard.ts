import { Command } from 'commander';
import { guardSimulateCommand } from './simulate.ts';

export function guardCommand(): Command {
  return new Command('guard')
    .description('Try what the guard of a cluster would do when machines die')
    .addCommand(guardSimulateCommand());
}
