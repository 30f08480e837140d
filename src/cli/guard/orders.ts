import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { isDnsName } from '../../core/guard/config.ts';
import type { FencingRecord, Phase } from '../../core/guard/record.ts';
import { parseDuration } from '../../core/units/duration.ts';
import { followFencing } from '../../guard/follow-fencing.ts';
import { giveOrder, type OrderEnd, type OrderGiven } from '../../guard/give-order.ts';
import { sayPhase } from '../../words/guard.ts';
import {
  isRehearsed,
  NO_LEADER,
  readScope,
  sayAnswered,
  sayDryRun,
  sayNoAnswer,
  sayNoSuchNode,
  sayNotFollowed,
  sayNotGiven,
  sayRehearsal,
} from '../../words/guard-order.ts';
import { clean, type Format, formatOption, printAs, sayWhen } from '../print.ts';
import { type Api, kubeconfigOption, namespaceOption, personsKubeconfig, withApi } from './api.ts';

type Options = {
  readonly by: string;
  readonly because: string;
  readonly kubeconfig?: string;
  readonly namespace: string;
  readonly output: Format;
};
type Verb = OrderGiven['verb'];
type Said = { readonly by: string; readonly because: string };

const REFUSED = 1;
const NO_ANSWER = 3;
const EXIT: { readonly [K in Exclude<OrderEnd['kind'], 'answered'>]: number } = {
  'no-such-node': REFUSED,
  'dry-run': REFUSED,
  'no-leader': NO_ANSWER,
  'no-answer': NO_ANSWER,
  failed: NO_ANSWER,
};
const REHEARSE_HELP = `
It powers a machine off and on again by its own devices, and shows that they switch this machine and no other one: its
lease alone falls silent, and it comes back with another boot. Nothing is tainted. The node must be Ready, cordoned and
drained, and stay so:
  kubectl drain w3 --ignore-daemonsets --delete-emptydir-data
Each run takes the level of devices that was rehearsed longest ago; guard check shows when each was.
Exit status: 0 when proven, 1 when refused or not proven, 2 for a usage error, or 3 when nobody answers or the rehearsal
cannot be followed; the guard then carries on with it.`;
const STATUS = `
The order is written with your own kubeconfig into the ConfigMap guard-orders. The guard that leads answers within 30 s;
otherwise the order is taken back.
Exit status: 0 when accepted, 1 when refused, 2 for a usage error, or 3 when nobody answers.`;

/** Everything that a person may order of the guard. */
export function guardOrderCommands(): readonly Command[] {
  return [
    orderCommand(
      'pause',
      'Stop all new fencing until it is resumed',
      'guard pause --by ann --because "replacing a switch"',
    ).action((options: Options) => give(options, { verb: 'pause', ...saidBy(options) })),
    orderCommand('resume', 'End a pause', 'guard resume --by ann --because "the switch works"').action(
      (options: Options) => give(options, { verb: 'resume', ...saidBy(options) }),
    ),
    orderCommand(
      'release',
      'Lift the storm and rate holds of a node, of a failure domain or of all nodes',
      'guard release topology.kubernetes.io/zone=a --for 30m --by ann --because "it burned down"',
    )
      .addArgument(new Argument('<scope>', 'Name of a node, LABEL=VALUE, or all').argParser(scopeOf))
      .addOption(
        new Option('--for <time>', 'For how long, at most 2h (required)').argParser(msOf).makeOptionMandatory(),
      )
      .action((scope: NonNullable<ReturnType<typeof readScope>>, options: Options & { readonly for: number }) =>
        give(options, { verb: 'release', scope, forMs: options.for, ...saidBy(options) }),
      ),
    nodeCommand(
      'fence',
      'Fence a node even if it is not dead; proof is still needed',
      'guard fence w3 --by ann --because "it smokes"',
    ).action((node: string, options: Options) => give(options, { verb: 'fence', node, ...saidBy(options) })),
    nodeCommand(
      'power-on',
      'Power on a machine that a fencing left off',
      'guard power-on w3 --by ann --because "new disk"',
    ).action((node: string, options: Options) => give(options, { verb: 'power-on', node, ...saidBy(options) })),
    nodeCommand(
      'rehearse',
      'Power a drained machine off and on, to prove the wiring of its devices',
      'guard rehearse w3 --by ann',
      { help: REHEARSE_HELP, because: 'a rehearsal' },
    ).action((node: string, options: Options) => rehearse(options, { verb: 'rehearse', node, ...saidBy(options) })),
    nodeCommand(
      'confirm-off',
      'Say that a machine is off, in place of the proof by its devices',
      'guard confirm-off w3 --checked w3 --by ann --because "both plugs are in my hand"',
    )
      .requiredOption('--checked <node>', 'The name again, of the machine that you have seen to be off (required)')
      .option('--device-is-wrong', 'Overrule a device that says on')
      .action((node: string, options: Options & { readonly checked: string; readonly deviceIsWrong?: true }) =>
        give(options, {
          ...{ verb: 'confirm-off', node, checked: options.checked, isDeviceWrong: options.deviceIsWrong === true },
          ...saidBy(options),
        }),
      ),
  ];
}

const saidBy = ({ by, because }: Options): Said => ({ by, because });

/** `because`: the reason if none is given; absent: one must be given. */
type More = { readonly help?: string; readonly because?: string };

function orderCommand(
  verb: Verb,
  description: string,
  example: string,
  { help = STATUS, because }: More = {},
): Command {
  // Commander does not say which options are required.
  const required = because === undefined ? ' (required)' : '';
  const reason = new Option('--because <text>', `Your reason, for the record${required}`).argParser(wordOf);
  return new Command(verb)
    .description(description)
    .requiredOption('--by <who>', 'Your name, for the record (required)', wordOf)
    .addOption(because === undefined ? reason.makeOptionMandatory() : reason.default(because))
    .addOption(kubeconfigOption())
    .addOption(namespaceOption())
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  nodewarden ${example}\n${help}`);
}

const nodeCommand = (verb: Verb, description: string, example: string, more?: More): Command =>
  orderCommand(verb, description, example, more).addArgument(
    new Argument('<node>', 'Name of the node').argParser(nodeNameOf),
  );

async function give(options: Options, given: OrderGiven): Promise<void> {
  const end = await withApi(personsKubeconfig(options.kubeconfig), (api) => giveTo(api, options, given));
  sayGiven(end, given, options);
}

/** Followed to its end, if the order is accepted. */
async function rehearse(options: Options, given: OrderGiven): Promise<void> {
  const { namespace, output } = options;
  await withApi(personsKubeconfig(options.kubeconfig), async (api) => {
    const end = await giveTo(api, options, given);
    const fencing = end.kind === 'answered' && end.answer.isAccepted ? end.answer.fencing : null;
    if (fencing === null) return sayGiven(end, given, options);
    if (output === 'text') process.stdout.write(`${clean(sayEnd(end, given))}\n`);
    process.exitCode = await followRehearsal(api, { namespace, fencing, output });
  });
}

const giveTo = ({ clock, connection }: Api, { namespace }: Options, given: OrderGiven): Promise<OrderEnd> =>
  giveOrder(given, { api: connection, clock, namespace, id: newId(clock.wallMs()) });

function sayGiven(end: OrderEnd, given: OrderGiven, { output }: Options): void {
  const text = sayEnd(end, given);
  const isAccepted = end.kind === 'answered' && end.answer.isAccepted;
  if (isAccepted || output === 'json') printAs(output, { schema: 1, ...end }, () => `${clean(text)}\n`);
  else process.stderr.write(`${clean(text)}\n`);
  process.exitCode = end.kind === 'answered' ? (isAccepted ? 0 : REFUSED) : EXIT[end.kind];
}

function sayEnd(end: OrderEnd, given: OrderGiven): string {
  switch (end.kind) {
    case 'answered':
      return sayAnswered(end.answer, end.leader, given.verb);
    case 'no-such-node':
      return sayNoSuchNode('node' in given && given.node !== undefined ? given.node : '');
    case 'dry-run':
      return sayDryRun(end.leader);
    case 'no-leader':
      return NO_LEADER;
    case 'no-answer':
      return sayNoAnswer(end.leader, end.isWithdrawn);
    case 'failed':
      return sayNotGiven(end.what, end.detail);
  }
}

/** In the order of time, and another one for each order. */
function newId(wallMs: number): string {
  const at = new Date(wallMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').toLowerCase();
  return `${at}-${crypto.randomUUID().slice(0, 8)}`;
}

const MAX_TEXT = 500;
function wordOf(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('It must not be empty.');
  if (text.length > MAX_TEXT) throw new InvalidArgumentError(`At most ${MAX_TEXT} characters.`);
  return text;
}

function nodeNameOf(text: string): string {
  if (isDnsName(text)) return text;
  throw new InvalidArgumentError('Not the name of a node.');
}

function scopeOf(text: string) {
  const scope = readScope(text);
  if (scope === null) throw new InvalidArgumentError('Use the name of a node, LABEL=VALUE, or all.');
  return scope;
}

function msOf(text: string): number {
  const parsed = parseDuration(text);
  if (parsed.ok && parsed.duration.ms > 0) return parsed.duration.ms;
  throw new InvalidArgumentError('Use a duration such as 30m.');
}

const NOT_PROVEN = 1;
const NOT_KNOWN = 3;

/** Shows each phase of a rehearsal as it comes, and what it has shown in the end. The exit status. */
async function followRehearsal(
  { clock, connection }: Api,
  { namespace, fencing, output }: { readonly namespace: string; readonly fencing: string; readonly output: Format },
): Promise<number> {
  let last: Phase | null = null;
  const record = await followFencing(fencing, {
    ...{ clock, namespace, get: connection.get },
    stepped: ({ phase, wallMs }) => {
      if (output === 'text' && phase !== last) process.stdout.write(`${sayWhen(wallMs)}  ${sayPhase(phase)}\n`);
      last = phase;
    },
  });
  if (typeof record === 'string') {
    process.stderr.write(`${sayNotFollowed(record)}\n`);
    return NOT_KNOWN;
  }
  printRehearsal(record, output);
  return isRehearsed(record) ? 0 : NOT_PROVEN;
}

function printRehearsal(record: FencingRecord, output: Format): void {
  const text = `${clean(sayRehearsal(record))}\n`;
  if (output === 'json' || isRehearsed(record)) {
    printAs(output, { schema: 1, isProven: isRehearsed(record), fencing: record }, () => text);
  } else process.stderr.write(text);
}
