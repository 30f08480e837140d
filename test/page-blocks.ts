/** A fenced block of a page: what stands after the fence, and the lines in it. */
export type Block = { readonly info: string; readonly lines: readonly string[] };

export function split(text: string): { readonly prose: string; readonly blocks: readonly Block[] } {
  const prose: string[] = [];
  const blocks: { info: string; lines: string[] }[] = [];
  let isOpen = false;
  for (const line of text.split('\n')) {
    const fence = /^ *```(.*)$/.exec(line);
    if (fence !== null) {
      isOpen = !isOpen;
      if (isOpen) blocks.push({ info: fence[1] ?? '', lines: [] });
    } else if (isOpen) blocks.at(-1)?.lines.push(line);
    else prose.push(line);
  }
  return { prose: prose.join('\n'), blocks };
}

const PROMPT = '$ ';

/** A command of a block, and the lines that it prints. */
export type Command = { readonly command: string; readonly printed: readonly string[] };

/** The commands are the lines after "$ "; what each prints stands below it. */
export function commandsOf(lines: readonly string[]): readonly Command[] {
  return lines
    .flatMap((line, at) => (line.startsWith(PROMPT) ? [at] : []))
    .map((at) => {
      const rest = lines.slice(at + 1);
      const next = rest.findIndex((line) => line.startsWith(PROMPT));
      return {
        command: (lines[at] ?? '').slice(PROMPT.length),
        printed: trimmed(next < 0 ? rest : rest.slice(0, next)),
      };
    });
}

/** Without spaces at the end of lines, and without empty lines at the end. */
export function trimmed(lines: readonly string[]): readonly string[] {
  return lines
    .map((line) => line.trimEnd())
    .join('\n')
    .trimEnd()
    .split('\n');
}

/** "..." stands for any number of lines. */
export function matches(wanted: readonly string[], got: readonly string[]): boolean {
  const [first, ...rest] = wanted;
  if (first === undefined) return got.length === 0 || (got.length === 1 && got[0] === '');
  if (first === '...') return got.some((_, at) => matches(rest, got.slice(at))) || matches(rest, []);
  return got[0] === first && (rest.length === 0 ? got.length === 1 : matches(rest, got.slice(1)));
}
