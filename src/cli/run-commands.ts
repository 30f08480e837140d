import { Command } from 'commander';
import pkg from '../../package.json' with { type: 'json' };

/** The exit status for usage errors, as for a bad configuration. */
const BAD_USAGE = 2;

/** Runs the command that the arguments name. Sets the exit status of the process but never ends it. */
export async function runCommands(args: readonly string[], commands: readonly Command[]): Promise<void> {
  try {
    await createProgram(commands).parseAsync(args, { from: 'user' });
  } catch (error) {
    // Thrown by commander instead of process.exit; its message is already printed.
    const isUsage = error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');
    if (!isUsage) throw error;
    process.exitCode = 'exitCode' in error && error.exitCode === 0 ? 0 : BAD_USAGE;
  }
}

export function createProgram(commands: readonly Command[]): Command {
  const program = overridden(new Command('nodewarden'), '(see nodewarden --help)')
    .description("Keep one machine alive under pressure: evict pods by the kubelet's rules")
    .version(pkg.version, '-V, --version', 'Print the version')
    .addHelpText(
      'after',
      '\nExamples:\n  nodewarden demo\n  nodewarden config check /etc/nodewarden/config.yaml\n  nodewarden run --dry-run\n  nodewarden status --watch\n  nodewarden explain\n  nodewarden simulate /usr/share/nodewarden/scenarios/memory-leak.yaml\n  nodewarden rehearse shutdown',
    );
  for (const command of commands) program.addCommand(overridden(command, '(see --help)'));
  addHelpCommand(program);
  return program;
}

/** A command created elsewhere inherits nothing: settings are copied, also to subcommands. */
function overridden(command: Command, hint: string): Command {
  for (const sub of command.commands) overridden(sub, hint);
  if (command.commands.length > 0) addHelpCommand(command);
  return command.exitOverride().showHelpAfterError(hint).helpOption('-h, --help', 'Show this help');
}

function addHelpCommand(command: Command): void {
  command.helpCommand('help [command]', 'Show the help of a command');
}
