import type { MonoMs, Reading } from '../core/reading.ts';
import type { NodeCondition, Signal, SignalSample } from '../core/signal.ts';
import { sayBytes } from '../core/units/quantity.ts';
import { sayAmount } from '../words/phrases.ts';

/** One signal against its thresholds, resolved in the signal's own unit. */
export type Gauge = {
  readonly signal: Signal;
  readonly sample: Reading<SignalSample>;
  readonly limits: readonly number[];
};
export type PodLine = {
  readonly name: string;
  readonly facts: string;
  readonly usedBytes: Reading<number>;
  readonly note: string;
};
export type Frame = {
  readonly atMs: MonoMs;
  readonly gauges: readonly Gauge[];
  readonly conditions: readonly NodeCondition[];
  readonly pods: readonly PodLine[];
};
type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';
/** Text in a colour; unchanged if there are no colours. */
export type Paint = (style: Style, text: string) => string;
export type Terminal = {
  readonly write: (text: string) => void;
  readonly paint: Paint;
  /** Null: not a terminal, or too small for the picture, so plain lines are printed. Queried for each picture. */
  readonly size: () => { readonly columns: number; readonly rows: number } | null;
};
export type Screen = {
  readonly say: (...lines: readonly string[]) => void;
  /** Draws at most ten times a second on a terminal, once a second in plain lines. */
  readonly show: (frame: Frame) => void;
  /** Leaves the last picture in place; later text is printed below it. */
  readonly leave: () => void;
};

const DRAW_EVERY_MS = 100;
const PLAIN_EVERY_MS = 1_000;
const MIN_COLUMNS = 60;
const BAR_CELLS = 36;
/** "2000000 inodes" */
const AMOUNT_COLUMNS = 15;
const ESC = '\u001b[';

/** `startMs`: when the story begins, on the clock of its frames. */
export function createScreen(terminal: Terminal, startMs: MonoMs, memoryBytes: number): Screen {
  let drawnMs: MonoMs | null = null;
  let drawnLines = 0;
  let last: Frame | null = null;
  const erase = (): string => (drawnLines === 0 ? '' : `${ESC}${drawnLines}A${ESC}J`);
  const draw = (before: string): void => {
    const size = terminal.size();
    const lines =
      last === null || !canDraw(size, last)
        ? []
        : picture(last, last.atMs - startMs, memoryBytes, terminal.paint, size.columns);
    terminal.write(`${erase()}${before}${lines.map((line) => `${line}\n`).join('')}`);
    drawnLines = lines.length;
  };
  return {
    say: (...lines) => draw(lines.map((line) => `${line}\n`).join('')),
    show: (frame) => {
      const everyMs = canDraw(terminal.size(), frame) ? DRAW_EVERY_MS : PLAIN_EVERY_MS;
      if (drawnMs !== null && frame.atMs - drawnMs < everyMs) return;
      drawnMs = frame.atMs;
      last = frame;
      draw(everyMs === PLAIN_EVERY_MS ? `${plainLine(frame, frame.atMs - startMs)}\n` : '');
    },
    leave: () => {
      drawnLines = 0;
      last = null;
    },
  };
}

type Size = ReturnType<Terminal['size']>;
function canDraw(size: Size, frame: Frame): size is NonNullable<Size> {
  return size !== null && size.columns >= MIN_COLUMNS && size.rows > frame.gauges.length + frame.pods.length + 6;
}

function picture(
  frame: Frame,
  elapsedMs: number,
  memoryBytes: number,
  paint: Paint,
  columns: number,
): readonly string[] {
  const state =
    frame.conditions.length === 0 ? paint('green', 'no pressure') : paint('red', frame.conditions.join(', '));
  const rule = paint('dim', '─'.repeat(Math.min(columns - 1, 100)));
  return [
    rule,
    `${paint('bold', `${(elapsedMs / 1000).toFixed(1).padStart(5)} s`)}   ${state}`,
    ...frame.gauges.map((gauge) => gaugeLine(gauge, paint)),
    '',
    ...frame.pods.map((pod) => podLine(pod, memoryBytes, paint)),
    rule,
  ].map((line) => clip(line, columns - 1));
}

/** A bar of what is left, filled from the left. The mark is the threshold, and red if the bar does not reach it. */
export function gaugeLine({ signal, sample, limits }: Gauge, paint: Paint): string {
  const label = ` ${signal.padEnd(18)}`;
  if (!sample.known) return `${label} ${paint('yellow', `unknown: ${sample.detail}`)}`;
  const { available, capacity } = sample.value;
  const isMet = limits.some((limit) => available < limit);
  const marks = new Set(limits.map((limit) => cellOf(limit, capacity)));
  const filled = cellOf(available, capacity);
  const style: Style = isMet ? 'red' : 'green';
  const cells = Array.from({ length: BAR_CELLS }, (_, cell) => {
    if (marks.has(cell)) return paint('yellow', '┃');
    return cell < filled ? paint(style, '█') : paint('dim', '░');
  });
  const bounds = limits.map((limit) => `evict below ${sayAmount(signal, limit)}`).join(', ');
  const amount = sayAmount(signal, available).padStart(AMOUNT_COLUMNS);
  return `${label} ${cells.join('')} ${paint(isMet ? 'red' : 'bold', amount)} ${paint('dim', bounds)}`;
}

function podLine(pod: PodLine, memoryBytes: number, paint: Paint): string {
  const used = pod.usedBytes.known ? sayBytes(pod.usedBytes.value) : '-';
  const cells = pod.usedBytes.known ? cellOf(pod.usedBytes.value, memoryBytes) : 0;
  const bar = `${paint('cyan', '▆'.repeat(cells))}${' '.repeat(Math.max(0, BAR_CELLS - cells))}`;
  return ` ${pod.name.padEnd(18)} ${bar} ${used.padStart(AMOUNT_COLUMNS)} ${paint('dim', `${pod.facts}${pod.note === '' ? '' : `, ${pod.note}`}`)}`;
}

function plainLine(frame: Frame, elapsedMs: number): string {
  const gauges = frame.gauges.map(({ signal, sample }) =>
    sample.known ? `${signal} ${sayAmount(signal, sample.value.available)}` : `${signal} unknown`,
  );
  const state = frame.conditions.length === 0 ? '' : `  ${frame.conditions.join(', ')}`;
  return `${(elapsedMs / 1000).toFixed(1).padStart(6)} s  ${gauges.join('  ')}${state}`;
}

function cellOf(amount: number, capacity: number): number {
  if (capacity <= 0) return 0;
  return Math.min(BAR_CELLS, Math.max(0, Math.round((amount / capacity) * BAR_CELLS)));
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the colours to be left out of the count begin with one
const COLOUR = /\u001b\[[0-9;]*m/y;

/** Cuts after `columns` visible characters, so that a line never wraps and the picture can be drawn over. */
export function clip(line: string, columns: number): string {
  let seen = 0;
  let end = 0;
  while (end < line.length) {
    COLOUR.lastIndex = end;
    const colour = COLOUR.exec(line);
    if (colour !== null) end += colour[0].length;
    else if (seen === columns) return `${line.slice(0, end)}${ESC}0m`;
    else {
      seen += 1;
      end += 1;
    }
  }
  return line;
}
