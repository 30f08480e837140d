import { Argument, Command } from 'commander';
import type { FencingRecord, HoldScope, PastHold, StoredRecord } from '../../core/guard/record.ts';
import { partOf } from '../../core/shape.ts';
import { sayTenths } from '../../core/units/duration.ts';
import { GUARD_STATE, readPast } from '../../guard/kept.ts';
import { readRecord } from '../../guard/records.ts';
import type { ApiGet } from '../../kube/api/connection.ts';
import { listObjects, pathWith } from '../../kube/api/object-list.ts';
import { sayPastHold, sayScope } from '../../words/guard-decision.ts';
import { beganWallMs, sayFreed, sayPurpose, saySilence, sayStepsOf } from '../../words/guard-history.ts';
import { sayNotGiven } from '../../words/guard-order.ts';
import { clean, type Format, formatOption, type Paint, printAs, sayWhen } from '../print.ts';
import { guardPlacesOf } from './answer.ts';
import { kubeconfigOption, namespaceOption, readersKubeconfig, withApi } from './api.ts';
import { showLocalHistory } from './history-local.ts';

type Options = {
  readonly kubeconfig?: string;
  readonly namespace: string;
  readonly local?: true;
  readonly config?: string;
  readonly output: Format;
};

const NOT_READ = 1;
const LIST_MS = 20_000;
const HELP = `
Examples:
  nodewarden guard history
  nodewarden guard history w3 -o json
  nodewarden guard history --local

It reads the records with your own kubeconfig, or in a pod without one with its ServiceAccount, and needs no running guard.
A dry run writes none: with --local, it reads what the guard of this machine keeps on its disk while it leads.
Exit status: 0, 1 when the records cannot be read, or 2 for a usage error.`;

export function guardHistoryCommand(): Command {
  return new Command('history')
    .description('Show fencings with the time of each phase, and what was held back')
    .addArgument(new Argument('[node]', 'Only fencings of the node with this name'))
    .addOption(kubeconfigOption())
    .addOption(namespaceOption())
    .option('--local', 'Show what the guard of this machine held, and would have fenced in dry run')
    .option('-c, --config <file>', 'Configuration file that names the directory of that record')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (node: string | undefined, { kubeconfig, namespace, local, config, output }: Options) => {
      if (local === true) {
        process.exitCode = showLocalHistory(guardPlacesOf(config ?? null).stateDirectory, node, output);
        return;
      }
      const file = readersKubeconfig(kubeconfig);
      const listed = await withApi(file, ({ connection }) => listHistory(connection.get, namespace));
      if (typeof listed === 'string') {
        process.stderr.write(`${clean(sayNotGiven(`list the ConfigMaps of ${namespace} with ${file}`, listed))}\n`);
        process.exitCode = NOT_READ;
        return;
      }
      for (const stored of listed.records) {
        if (stored.record === null) process.stderr.write(`${clean(`not read: ${stored.id}: ${stored.problem}`)}\n`);
      }
      const fencings = listed.records
        .flatMap(({ record }) => (record === null ? [] : [record]))
        .filter((record) => node === undefined || record.node.name === node)
        .toSorted((a, b) => beganWallMs(a) - beganWallMs(b));
      const holds = listed.holds.filter(({ scope }) => node === undefined || isOf(scope, node));
      const nothing = `No fencings${node === undefined ? '' : ` of ${node}`} in the records of ${namespace}. Of a dry run: --local.`;
      printAs(output, { schema: 1, fencings, holds }, (paint) => {
        const texts = fencings.length === 0 ? [`${clean(nothing)}\n`] : fencings.map((one) => fencingText(one, paint));
        return [...texts, ...(holds.length === 0 ? [] : [holdsText(holds, paint)])].join('\n');
      });
    });
}

type History = { readonly records: readonly StoredRecord[]; readonly holds: readonly PastHold[] };

/** A sentence: it cannot be listed. */
async function listHistory(get: ApiGet, namespace: string): Promise<History | string> {
  const pathOf = pathWith(`/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`);
  const read = (map: unknown) => ({ record: readRecord(map), holds: isOfState(map) ? readPast(map) : [] });
  const listed = await listObjects(get, pathOf, '', LIST_MS, read, () => Promise.resolve());
  if (!listed.ok) return listed.detail;
  return {
    records: listed.objects.flatMap(({ record }) => record ?? []),
    holds: listed.objects.flatMap(({ holds }) => holds),
  };
}

const isOfState = (map: unknown): boolean => partOf(map, 'metadata')['name'] === GUARD_STATE;
/** A storm of the cluster or of a domain says nothing of one node. */
const isOf = (scope: HoldScope, node: string): boolean => scope.kind === 'nodes' && scope.nodes.includes(node);

function holdsText(holds: readonly PastHold[], paint: Paint): string {
  const rows = holds
    .toSorted((one, other) => one.fromWallMs - other.fromWallMs)
    .map(({ what, scope, fromWallMs, untilWallMs, isAtMost }) => {
      const most = isAtMost === true ? 'at most ' : '';
      const took = untilWallMs === null ? 'no end' : `${most}${sayTenths(untilWallMs - fromWallMs)}`;
      return `  ${sayWhen(fromWallMs)}  ${took.padStart(8)}  ${clean(
        sayPastHold(
          what,
          sayScope(scope, (name) => name),
        ),
      )}\n`;
    });
  const note = holds.some(({ untilWallMs }) => untilWallMs === null) ? `  ${NO_END}\n` : '';
  return `${paint('bold', 'held back')}\n${rows.join('')}${note}`;
}

const NO_END =
  'no end: it lasts, or ended while no guard led, or one in dry run, which stores nothing: see nodewarden guard status';

function fencingText(record: FencingRecord, paint: Paint): string {
  const { id, node, phase, steps } = record;
  const what = clean(sayPurpose(record, ` ${id}, ${phase}`));
  const began = beganWallMs(record);
  const head = `${sayWhen(began)}  ${paint('bold', clean(node.name))}  ${what}\n`;
  const said = sayStepsOf(record);
  const rows = steps.map((step, at) => `  ${`+${sayTenths(step.wallMs - began)}`.padStart(8)}  ${said[at]}\n`);
  const freed = sayFreed(record).map((text) => `  ${clean(text)}\n`);
  return `${head}  ${saySilence(record)}\n${rows.join('')}${freed.join('')}`;
}
