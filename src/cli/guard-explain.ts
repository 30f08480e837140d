import { Argument, Command } from 'commander';
import { type ExplainReport, isExplainReport, isNodesUnknown, type NodesUnknown } from '../guard/shown.ts';
import { askGuard } from './guard-answer.ts';
import { guardExplainText } from './guard-explain-text.ts';
import { clean, type Format, formatOption, printAs } from './print.ts';

type Options = { readonly config?: string; readonly output: Format };

const NO_SUCH_NODE = 2;
const NOT_KNOWN = 3;

export function guardExplainCommand(): Command {
  return new Command('explain')
    .description('Explain why a node is fenced or not: every gate, and what would open it')
    .addArgument(new Argument('<node>', 'Name of the node'))
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard explain w3\n\nExit status: 0, 2 when there is no such node, or 3 when no guard runs here or the nodes are not known yet.',
    )
    .action(async (node: string, { config, output }: Options) => {
      process.exitCode = await explain(node, config ?? null, output);
    });
}

async function explain(node: string, config: string | null, output: Format): Promise<number> {
  const answer = await askGuard(config, { ask: 'explain', node }, isAnswer);
  if (typeof answer === 'number') return answer;
  if (answer === null) {
    process.stderr.write(`${clean(`the guard knows no node ${node}`)}\n`);
    return NO_SUCH_NODE;
  }
  if (isNodesUnknown(answer)) {
    process.stderr.write(`${clean(`the guard has not listed the nodes yet: ${answer.detail}`)}\n`);
    return NOT_KNOWN;
  }
  printAs(output, answer, (paint) => guardExplainText(answer, paint));
  return 0;
}

const isAnswer = (answer: unknown): answer is ExplainReport | NodesUnknown | null =>
  answer === null || isNodesUnknown(answer) || isExplainReport(answer);
