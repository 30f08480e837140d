import { type LocalEntry, readLocalRecord } from '../../guard/local-record.ts';
import { counted } from '../../words/phrases.ts';
import { clean, type Format, type Paint, printAs, sayWhen } from '../print.ts';

const NOT_READ = 1;

/** `node` undefined: of all. Storms are of no node, and always shown. Returns the exit status. */
export function showLocalHistory(directory: string, node: string | undefined, output: Format): number {
  const { entries: all, unreadable } = readLocalRecord(directory);
  for (const problem of unreadable) process.stderr.write(`${clean(`not read: ${problem}`)}\n`);
  const entries = all.filter((entry) => node === undefined || entry.node === node || entry.node === null);
  const none = unreadable.length > 0 ? NOTHING_READ : node === undefined ? NOBODY : `it tells nothing of ${node}`;
  printAs(output, { schema: 1, entries }, (paint) =>
    entries.length === 0 ? `${clean(`Nothing in ${directory}: ${none}.`)}\n` : localText(entries, paint),
  );
  return unreadable.length === 0 ? 0 : NOT_READ;
}

const NOBODY = 'no guard has stored there that it held anybody, or fenced anybody in dry run';
const NOTHING_READ = 'not all of its record can be read';

function localText(entries: readonly LocalEntry[], paint: Paint): string {
  const lines = entries.map(({ wallMs, kind, text }) => {
    const said = clean(text);
    return `${sayWhen(wallMs)}  ${kind === 'would-fence' ? paint('yellow', said) : said}\n`;
  });
  const count = (wanted: LocalEntry['kind']): number => entries.filter(({ kind }) => kind === wanted).length;
  const fenced = count('would-fence');
  const dry =
    fenced === 0 ? '' : `${counted(fenced, 'fencing')} in dry run, ${counted(count('alive'), 'node')} alive again; `;
  return `${lines.join('')}\n${dry}${counted(count('held'), 'hold')}, ${counted(count('storm-began'), 'storm')}\n`;
}
