import { Command } from 'commander';
import { yamlText } from '../document/yaml-text.ts';
import { isCapture } from '../guard/capture.ts';
import { askGuard } from './guard-answer.ts';
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
  const answer = await askGuard(config ?? null, { ask: 'observe' }, isCapture);
  if (typeof answer === 'number') return answer;
  const scenario = redact === true ? answer.redacted : answer.plain;
  printAs(output, scenario, () => `${HEADING}${yamlText(scenario)}`);
  return 0;
}
