import { Command } from 'commander';
import pkg from '../../package.json' with { type: 'json' };

/** Usage mistakes end with this status, like a bad configuration. */
const BAD_USAGE = 2;

/** Runs the command of the arguments. Sets the exit status of the process, and never ends it. */
export async function runCommands(args: readonly string[], commands: readonly Command[]): Promise<void> {
  const program = new Command('nodewarden')
    .description("keeps one machine alive under pressure: node-pressure eviction with the kubelet's rules")
    .version(pkg.version)
    .addHelpText(
      'after',
      '\nExamples:\n  nodewarden demo\n  nodewarden config check /etc/nodewarden/config.yaml\n  nodewarden run --dry-run\n  nodewarden status --watch\n  nodewarden explain\n  nodewarden simulate /usr/share/nodewarden/scenarios/memory-leak.yaml\n  nodewarden rehearse shutdown',
    )
    .showHelpAfterError('(nodewarden --help shows what there is)')
    .exitOverride();
  for (const command of commands) program.addCommand(overridden(command));
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    // Thrown by commander in place of process.exit; it has printed its sentence already.
    const isUsage = error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');
    if (!isUsage) throw error;
    process.exitCode = 'exitCode' in error && error.exitCode === 0 ? 0 : BAD_USAGE;
  }
}

/** A command that was made elsewhere inherits nothing: settings are copied, subcommands' too. */
function overridden(command: Command): Command {
  for (const sub of command.commands) overridden(sub);
  return command.exitOverride().showHelpAfterError('(--help shows what there is)');
}
