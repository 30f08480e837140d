/**
 * Plays sections of a page on a machine: `page.ts [--unchecked] PAGE NUMBER... -- COMMAND...`. COMMAND, with a script as one
 * more argument, is a shell of root there. A block "console lab": each line after "$ " is run, "sudo" or not, and must print what stands
 * below it; figures may differ, and "..." stands for any lines. "sh file NAME" is written to that file, and "yaml set NAME"
 * replaces the fields of the same name there. Prints what happened, as the page has it, and last the seconds that all of it
 * took by that machine's clock. Exit status: 1 when something else was printed. --unchecked: whatever is printed.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type Block, commandsOf, matches, split, trimmed } from '../page-blocks.ts';

type Step = { readonly shown: string; readonly script: string; readonly printed: readonly string[] };

const END = 'PAGE';

function stepsOf({ info, lines }: Block): readonly Step[] {
  if (info === 'console lab')
    return commandsOf(lines).map(({ command, printed }) => {
      return { shown: `$ ${command}`, script: command.replace(/^sudo /, ''), printed };
    });
  const [, kind, file = ''] = /^(sh file|yaml set) (\S+)$/.exec(info) ?? [];
  const text = `<<'${END}'\n${lines.join('\n')}\n${END}\n`;
  if (kind === 'sh file') return [{ shown: `(writes ${file})`, script: `cat > ${file} ${text}`, printed: [''] }];
  if (kind !== 'yaml set') return [];
  const fields = lines.flatMap((line) => /^\w+(?=:)/.exec(line) ?? []).join('|');
  // At once: the agent reads it as soon as it changes.
  const others = `perl -0777 -pe 's/^(${fields}):.*\\n(?:[ -].*\\n)*//mg' ${file} > ${file}.new`;
  return [
    {
      shown: `(sets ${fields})`,
      script: `${others} && cat >> ${file}.new ${text}mv ${file}.new ${file}`,
      printed: [''],
    },
  ];
}

/** Without what differs from machine to machine: figures with their units, a slow disk or stop, the number of a decision, and the width of columns. */
const masked = (lines: readonly string[]): readonly string[] =>
  lines.map((line) =>
    line
      .replace(' [recorded late]', '')
      .replace(/\b[0-9a-f]{8}-\d+\b/g, '0')
      .replace(/\d[\d.,:]*( ?([KMG]i)?B\b| ?%)?/g, '0')
      .replace(/(0(ms|[dhms]))+\b/g, '0')
      .replace(/asked to stop after 0; /, '')
      .replace(/ +/g, ' '),
  );

const failure = (lines: readonly string[]): string => /^exit status .*/.exec(lines.at(-1) ?? '')?.[0] ?? '';
const asSaid = (wanted: readonly string[], got: readonly string[]): boolean =>
  failure(wanted) === failure(got) && matches(masked(wanted), masked(got));

const UPTIME = 'read -r up rest < /proc/uptime; echo "at $up"';

function play({ script }: Step, shell: readonly string[]): { got: readonly string[]; seconds: number } {
  const wrapped = `${UPTIME}; cd; { ${script}\n} 2>&1 < /dev/null; s=$?; [ $s = 0 ] || echo "exit status $s"; ${UPTIME}`;
  const [command = '', ...args] = shell;
  const { stdout, stderr } = spawnSync(command, [...args, wrapped], { encoding: 'utf8', maxBuffer: 1 << 26 });
  const lines = stdout.trimEnd().split('\n');
  const [began, ended] = [lines.shift(), lines.pop()].map((line) => Number(/^at ([\d.]+)$/.exec(line ?? '')?.[1]));
  const seconds = (ended ?? Number.NaN) - (began ?? Number.NaN);
  return Number.isNaN(seconds)
    ? { got: trimmed([...stdout.split('\n'), ...stderr.split('\n'), 'no answer from the machine']), seconds: 0 }
    : { got: trimmed(lines), seconds };
}

const args = process.argv.slice(2);
const isUnchecked = args[0] === '--unchecked';
const [page = '', ...rest] = isUnchecked ? args.slice(1) : args;
const wanted = rest.slice(0, rest.indexOf('--'));
const shell = rest.slice(rest.indexOf('--') + 1);
const sections = readFileSync(page, 'utf8').split(/^## /m);
const steps = wanted.flatMap((number) => {
  const section = sections.find((text) => text.startsWith(`${number}. `)) ?? '';
  const found = split(section).blocks.flatMap(stepsOf);
  if (found.length === 0) throw new Error(`${page} has no section ${number} with something to play`);
  return found;
});
let total = 0;
for (const step of steps) {
  const { got, seconds } = play(step, shell);
  total += seconds;
  process.stdout.write(`${[step.shown, ...got.filter((line, at) => at > 0 || line !== '')].join('\n')}\n`);
  if (isUnchecked || asSaid(step.printed, got)) continue;
  process.stdout.write(`-- ${page} says instead:\n${step.printed.join('\n')}\n`);
  process.exitCode = 1;
  break;
}
process.stdout.write(`took ${total.toFixed(1)} s\n`);
