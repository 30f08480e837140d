import type { FencingRecord, Phase } from '../core/guard/record.ts';
import { followFencing } from '../guard/follow-fencing.ts';
import { sayPhase } from '../words/guard.ts';
import { isRehearsed, NOT_FOLLOWED, sayRehearsal } from '../words/guard-order.ts';
import type { Api } from './guard-api.ts';
import { clean, type Format, printAs, sayWhen } from './print.ts';

const NOT_PROVEN = 1;
const NOT_KNOWN = 3;

/** Shows each phase of a rehearsal as it comes, and what it has shown in the end. The exit status. */
export async function followRehearsal(
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
  if (record === null) {
    process.stderr.write(`${NOT_FOLLOWED}\n`);
    return NOT_KNOWN;
  }
  say(record, output);
  return isRehearsed(record) ? 0 : NOT_PROVEN;
}

function say(record: FencingRecord, output: Format): void {
  const text = `${clean(sayRehearsal(record))}\n`;
  if (output === 'json' || isRehearsed(record)) {
    printAs(output, { schema: 1, isProven: isRehearsed(record), fencing: record }, () => text);
  } else process.stderr.write(text);
}
