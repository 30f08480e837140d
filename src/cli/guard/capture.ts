import { Command, Option } from 'commander';
import { yamlText } from '../../document/yaml-text.ts';
import { isCapture } from '../../guard/capture.ts';
import { createClock } from '../../host/clock.ts';
import { clean, type Format, formatOption, printAs } from '../print.ts';
import { parseSince } from '../since.ts';
import { askGuard } from './answer.ts';

type Options = {
  readonly config?: string;
  readonly output: Format;
  readonly redact?: true;
  readonly since?: (nowWallMs: number) => number;
};

const HELP = `
Examples:
  nodewarden guard capture > now.yaml
  nodewarden guard simulate now.yaml --config /etc/nodewarden/guard.yaml    what it would do
  nodewarden guard simulate now.yaml --config stricter.yaml                 what another configuration would do
  nodewarden guard capture --since 45m > outage.yaml                        what happened, to be decided again

A guard keeps the last hour in memory, since it started. The beginning of the file says what is not in it.
Exit status: 0, or 3 when no guard runs here.`;
const NOW = [
  'What a guard saw, as a world in which it came about: at first every node is alive. Pods are known of silent nodes alone.',
];
const SIMULATE = 'Simulate it with the configuration of the guard: nodewarden guard simulate FILE --config GUARD.yaml';

export function guardCaptureCommand(): Command {
  return new Command('capture')
    .description('Save what the guard sees, or saw in the last hour, as a scenario for simulate')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .addOption(
      new Option('-s, --since <time>', 'What happened since then, for example 30m or an instant').argParser(parseSince),
    )
    .option('--redact', 'Replace the names of nodes, pods, failure domains and persons')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      process.exitCode = await capture(options);
    });
}

async function capture({ config, output, redact, since }: Options): Promise<number> {
  const nowWallMs = createClock().wallMs();
  const hour = since === undefined ? {} : { forMs: Math.max(0, nowWallMs - since(nowWallMs)) };
  const answer = await askGuard(config ?? null, { ask: 'observe', ...hour }, isCapture);
  if (typeof answer === 'number') return answer;
  const { scenario, notes } = redact === true ? answer.redacted : answer.plain;
  const heading = [...(notes.length === 0 ? NOW : notes), SIMULATE].map((line) => `# ${clean(line)}\n`).join('');
  if (output === 'json') for (const note of notes) process.stderr.write(`${clean(note)}\n`);
  printAs(output, scenario, () => `${heading}${yamlText(scenario)}`);
  return 0;
}
