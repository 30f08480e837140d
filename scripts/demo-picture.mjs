#!/usr/bin/env node
// Makes docs/demo.svg from a real run of the demo on this machine: records it on a pseudo terminal with script(1) of
// util-linux, replays the recording into a grid of cells and writes every line of it with the time it was to be seen.
//   npm run build && node scripts/demo-picture.mjs [OUT.svg]      (as root, else the demo is the simulated one)
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const COLUMNS = 128;
const ROWS = 48;
const CELL = { width: 7.8, height: 17, margin: 14 };
/** Pictures a second: the demo draws ten, of which a reader sees the difference of two. */
const PER_SECOND = 2;
const HOLD_SECONDS = 8;
const COLOURS = { 31: '#ff6b6b', 32: '#4fc46a', 33: '#f2c94c', 36: '#56b6c2', base: '#d6dbe5', dim: '#7d8590' };

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const out = process.argv[2] ?? join(root, 'docs', 'demo.svg');
const shots = replay(record());
writeFileSync(out, svg(shots));
process.stdout.write(`${out}: ${shots.length} pictures of ${shots.at(-1).atSeconds.toFixed(1)} s\n`);

/** The output of one run in pieces, each with the second at which it came. */
function record() {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-picture-'));
  const [text, timing] = [join(directory, 'text'), join(directory, 'timing')];
  const command = `stty cols ${COLUMNS} rows ${ROWS}; exec "$NODE" "$DEMO" demo`;
  const env = { ...process.env, TERM: 'xterm', NODE: process.execPath, DEMO: join(root, 'dist', 'nodewarden.js') };
  delete env.NO_COLOR;
  const argv = ['-q', '-e', '-m', 'classic', '-O', text, '-T', timing, '-c', command];
  const { status } = spawnSync('script', argv, { env, stdio: ['ignore', 'ignore', 'inherit'], timeout: 90_000 });
  if (status !== 0) throw new Error(`the demo ended with status ${status}: no picture of that`);
  const bytes = readFileSync(text);
  // The file begins with a line of script's own, which the timing does not count.
  let from = bytes.indexOf(10) + 1;
  let atSeconds = 0;
  const pieces = readFileSync(timing, 'latin1')
    .trim()
    .split('\n')
    .map((line) => {
      const [delay, length] = line.split(' ').map(Number);
      atSeconds += delay;
      from += length;
      return { atSeconds, bytes: bytes.subarray(from - length, from) };
    });
  rmSync(directory, { recursive: true });
  return pieces;
}

/** What stood on the terminal, line by line, twice a second and at the end. */
function replay(pieces) {
  const decoder = new TextDecoder();
  const lines = [[]];
  const at = { row: 0, column: 0, style: 'base', isBold: false };
  const found = [];
  const shoot = (atSeconds) => found.push({ atSeconds, lines: lines.map((line) => spans(line)) });
  let dueSeconds = 0;
  /** A command of the terminal may come in two pieces. */
  let begun = '';
  for (const piece of pieces) {
    while (piece.atSeconds > dueSeconds) {
      shoot(dueSeconds);
      dueSeconds += 1 / PER_SECOND;
    }
    const all = begun + decoder.decode(piece.bytes, { stream: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal's commands begin with one
    begun = /\u001b(\[[0-9;]*)?$/.exec(all)?.[0] ?? '';
    const text = all.slice(0, all.length - begun.length);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal's commands begin with one
    for (const [token, parameters, command] of text.matchAll(/\u001b\[([0-9;]*)([A-Za-z])|./gsu))
      apply(token, parameters, command);
  }
  shoot(dueSeconds);
  return found;

  function apply(token, parameters, command) {
    if (command === 'm') for (const code of parameters.split(';')) colour(Number(code));
    else if (command === 'A') at.row = Math.max(0, at.row - Number(parameters || 1));
    else if (command === 'J') lines.splice(at.row, lines.length, []);
    else if (token === '\r') at.column = 0;
    else if (token === '\n') {
      at.row += 1;
      at.column = 0;
      lines[at.row] ??= [];
    } else if (token >= ' ') lines[at.row][at.column++] = { char: token, style: at.style, isBold: at.isBold };
  }
  function colour(code) {
    if (code === 1) at.isBold = true;
    else if (code === 2) at.style = 'dim';
    else if (COLOURS[code]) at.style = String(code);
    else if (code === 39) at.style = 'base';
    else if (code === 0 || code === 22) Object.assign(at, { isBold: false, style: 'base' });
  }
}

/** A line as runs of one style, as SVG. */
function spans(line) {
  let runs = '';
  for (let column = 0; column < line.length; ) {
    const { style, isBold } = line[column];
    let end = column;
    while (end < line.length && line[end].style === style && line[end].isBold === isBold) end++;
    const text = line
      .slice(column, end)
      .map((cell) => cell.char)
      .join('');
    const x = (CELL.margin + column * CELL.width).toFixed(1);
    const length = ((end - column) * CELL.width).toFixed(1);
    const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
    const weight = isBold ? ' font-weight="bold"' : '';
    if (text.trim() !== '')
      runs += `<tspan x="${x}" textLength="${length}" fill="${COLOURS[style]}"${weight}>${escaped}</tspan>`;
    column = end;
  }
  return runs;
}

/** Each line once for as long as it did not change; without animation the last picture is what is seen. */
function svg(shots) {
  const endSeconds = shots.at(-1).atSeconds + HOLD_SECONDS;
  const rows = Math.max(...shots.map(({ lines }) => lines.length));
  const body = [];
  for (let row = 0; row < rows; row++) {
    for (let first = 0; first < shots.length; ) {
      const runs = shots[first].lines[row] ?? '';
      let next = first + 1;
      while (next < shots.length && (shots[next].lines[row] ?? '') === runs) next++;
      if (runs !== '')
        body.push(
          text(row, runs, shots[first].atSeconds / endSeconds, (shots[next]?.atSeconds ?? endSeconds) / endSeconds),
        );
      first = next;
    }
  }
  const width = Math.ceil(COLUMNS * CELL.width + 2 * CELL.margin);
  const height = Math.ceil(rows * CELL.height + 2 * CELL.margin);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>A recorded run of nodewarden demo</title>
<rect width="100%" height="100%" rx="8" fill="#14181f"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13" xml:space="preserve">
${body.join('\n')}
</g>
</svg>
`;

  function text(row, runs, from, to) {
    const y = CELL.margin + (row + 0.8) * CELL.height;
    const isLast = to >= 1;
    const values = [...(from > 0 ? [[0, 'hidden']] : []), [from, 'visible'], ...(isLast ? [] : [[to, 'hidden']])];
    const times = values.map(([time]) => time.toFixed(4)).join(';');
    const states = values.map(([, state]) => state).join(';');
    const animation = `<animate attributeName="visibility" calcMode="discrete" dur="${endSeconds.toFixed(1)}s" repeatCount="indefinite" keyTimes="${times}" values="${states}"/>`;
    const isAlways = isLast && from === 0;
    return `<text y="${y.toFixed(1)}"${isLast ? '' : ' visibility="hidden"'}>${runs}${isAlways ? '' : animation}</text>`;
  }
}
