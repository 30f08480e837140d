import { Command } from 'commander';
import { yamlText } from '../document/yaml-text.ts';
import { type CapturedScenario, isCaptured } from '../guard/capture.ts';
import { createClock } from '../host/clock.ts';
import { askDaemon } from '../serve/ask.ts';
import { failGuard, guardSocketOf, OTHER_GUARD } from './guard-answer.ts';
import { type Format, formatOption, printAs } from './print.ts';

type Options = { readonly config?: string; readonly output: Format; readonly redact?: true };

const HELP = `
Examples:
  nodewarden guard capture > now.yaml
  nodewarden guard simulate now.yaml --config /etc/nodewarden/guard.yaml    what it would do
  nodewarden guard simulate now.yaml --config stricter.yaml                 what another configuration would do

Exit status: 0, or 3 when no guard runs here.`;
const HEADING = `# What a guard saw, as a world in which it came about: at first every node is alive. Pods are known of silent nodes alone.
# Simulate it with the configuration of the guard: nodewarden guard simulate FILE --config GUARD.yaml
`;

export function guardCaptureCommand(): Command {
  return new Command('capture')
    .description('Save what the guard sees now as a scenario for simulate')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .option('--redact', 'Replace the names of nodes, pods and failure domains')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      process.exitCode = await capture(options);
    });
}

async function capture({ config, output, redact }: Options): Promise<number> {
  const socket = guardSocketOf(config ?? null);
  const asked = await askDaemon(socket, { ask: 'observe' }, createClock());
  if (asked.kind !== 'answer') return failGuard(asked, socket, config ?? null);
  const scenario = scenarioIn(asked.answer, redact === true);
  if (scenario === null) return failGuard(OTHER_GUARD, socket, config ?? null);
  printAs(output, scenario, () => `${HEADING}${yamlText(scenario)}`);
  return 0;
}

/** The guard sends both: names that are not to be seen are replaced where they are known. */
function scenarioIn(answer: unknown, redact: boolean): CapturedScenario | null {
  const { plain, redacted } = (answer ?? {}) as { readonly plain?: unknown; readonly redacted?: unknown };
  const wanted = redact ? redacted : plain;
  return isCaptured(wanted) ? wanted : null;
}
