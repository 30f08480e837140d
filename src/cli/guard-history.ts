import { Argument, Command } from 'commander';
import type { FencingRecord, StoredRecord } from '../core/guard/record.ts';
import { sayTenths } from '../core/units/duration.ts';
import { readRecord } from '../guard/records.ts';
import type { ApiGet } from '../kube/connection.ts';
import { listObjects, pathWith } from '../kube/object-list.ts';
import { sayPhase } from '../words/guard.ts';
import { sayNotGiven } from '../words/guard-order.ts';
import { kubeconfigOption, namespaceOption, personsKubeconfig, withApi } from './guard-api.ts';
import { clean, type Format, formatOption, type Paint, printAs, sayWhen } from './print.ts';

type Options = { readonly kubeconfig?: string; readonly namespace: string; readonly output: Format };

const NOT_READ = 1;
const LIST_MS = 20_000;
const HELP = `
Examples:
  nodewarden guard history
  nodewarden guard history w3 -o json

It reads the records with your own kubeconfig, and needs no running guard.
Exit status: 0, 1 when the records cannot be read, or 2 for a usage error.`;

export function guardHistoryCommand(): Command {
  return new Command('history')
    .description('Show fencings, closed and open, with the time of each phase')
    .addArgument(new Argument('[node]', 'Only fencings of the node with this name'))
    .addOption(kubeconfigOption())
    .addOption(namespaceOption())
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (node: string | undefined, { kubeconfig, namespace, output }: Options) => {
      const file = personsKubeconfig(kubeconfig);
      const listed = await withApi(file, ({ connection }) => listRecords(connection.get, namespace));
      if (typeof listed === 'string') {
        process.stderr.write(`${clean(sayNotGiven(`list the ConfigMaps of ${namespace} with ${file}`, listed))}\n`);
        process.exitCode = NOT_READ;
        return;
      }
      for (const stored of listed) {
        if (stored.record === null) process.stderr.write(`${clean(`not read: ${stored.id}: ${stored.problem}`)}\n`);
      }
      const fencings = listed
        .flatMap(({ record }) => (record === null ? [] : [record]))
        .filter((record) => node === undefined || record.node.name === node)
        .toSorted((a, b) => beganMs(a) - beganMs(b));
      const nothing = `No fencings${node === undefined ? '' : ` of ${node}`} in the records of ${namespace}.`;
      printAs(output, { schema: 1, fencings }, (paint) =>
        fencings.length === 0 ? `${clean(nothing)}\n` : fencings.map((one) => fencingText(one, paint)).join('\n'),
      );
    });
}

/** A sentence: they cannot be listed. */
async function listRecords(get: ApiGet, namespace: string): Promise<readonly StoredRecord[] | string> {
  const pathOf = pathWith(`/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`);
  const listed = await listObjects(get, pathOf, '', LIST_MS, readRecord, () => Promise.resolve());
  return listed.ok ? listed.objects.filter((stored) => stored !== null) : listed.detail;
}

const beganMs = ({ steps }: FencingRecord): number => steps[0]?.wallMs ?? 0;

function fencingText(record: FencingRecord, paint: Paint): string {
  const { id, node, phase, purpose, order, silentMs, steps, proof } = record;
  const what = purpose === 'rehearse' ? 'rehearsal' : 'fencing';
  const by = order === null ? '' : `, ordered by ${order.by}: ${order.because}`;
  const head = `${sayWhen(beganMs(record))}  ${paint('bold', clean(node.name))}  ${what} ${id}, ${phase}${clean(by)}\n`;
  const silent = `  silent for ${sayTenths(silentMs)} before\n`;
  const rows = steps.map((step) => {
    const after = `+${sayTenths(step.wallMs - beganMs(record))}`;
    return `  ${after.padStart(8)}  ${sayPhase(step.phase, proof?.by === 'person')}\n`;
  });
  return `${head}${silent}${rows.join('')}`;
}
