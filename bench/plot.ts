// `npx tsx bench/plot.ts`: bench/results/reaction.svg from reaction.json and, where it is there, guest.json.
import fs from 'node:fs';
import path from 'node:path';
import { EARLYOOM, FRESH, PRODUCT, type Row, reactionOf, SLOW, shareInTime } from './reaction/series.ts';
import { type Machine, readResult, resultFile } from './result.ts';

export type ReactionResult = {
  readonly on: Machine;
  readonly nodeMiB: number;
  readonly thresholdMiB: number;
  readonly rows: readonly Row[];
};

type Look = { readonly name: string; readonly mark: string; readonly isOfGuest: boolean };
type Panel = { readonly left: number; readonly right: number };
type Label = { readonly dx: number; readonly dy: number; readonly anchor: string };
type Point = { readonly x: number; readonly y: number };

const WIDTH = 920;
const HEIGHT = 456;
const TOP = 84;
const BOTTOM = 330;
const TIMES: Panel = { left: 62, right: 444 };
const SHARES: Panel = { left: 526, right: 902 };
/** Of the axis of times. */
const [LEAST_MS, MOST_MS] = [0.1, 10_000];
const TIME_TICKS: readonly (readonly [number, string])[] = [
  [0.1, '0.1 ms'],
  [1, '1 ms'],
  [10, '10 ms'],
  [100, '100 ms'],
  [1000, '1 s'],
  [10_000, '10 s'],
];
/** In the order in which they are drawn, the widest line first: several may be at 100 %. */
const LOOKS: readonly Look[] = [
  { name: PRODUCT, mark: 'M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0', isOfGuest: false },
  { name: EARLYOOM, mark: 'M-4,-4h8v8h-8z', isOfGuest: false },
  { name: SLOW, mark: 'M0,-5l5,9h-10z', isOfGuest: false },
  { name: 'systemd-oomd', mark: 'M0,-5l5,5l-5,5l-5,-5z', isOfGuest: true },
  { name: 'systemd-oomd + MemoryHigh', mark: 'M-5,-4h10l-5,9z', isOfGuest: true },
  { name: FRESH, mark: 'M-4,-4l8,8m0,-8l-8,8', isOfGuest: false },
];
/** Of the times: who is drawn, how far beside the rate, and where the figure stands. */
const TIMED: readonly { readonly name: string; readonly dx: number; readonly label: Label }[] = [
  { name: PRODUCT, dx: -18, label: { dx: -8, dy: 4, anchor: 'end' } },
  { name: FRESH, dx: 0, label: { dx: 0, dy: 18, anchor: 'middle' } },
  { name: EARLYOOM, dx: 16, label: { dx: 8, dy: 4, anchor: 'start' } },
];
const STYLE = `text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
path{fill:currentColor;stroke:currentColor}.line{fill:none;stroke:currentColor;stroke-width:2}.guest{stroke-dasharray:5 4}
.card,.open{fill:#fff}.card,.grid{stroke:#d1d9e0}.head{font-weight:600;font-size:14px}.note{fill:#59636e;font-size:11px}
.s0{color:#0969da}.s1{color:#bc4c00}.s2{color:#6e7781}.s3{color:#8250df}.s4{color:#1a7f37}.s5{color:#cf222e}.wide{stroke-width:6;stroke-opacity:.45}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.card,.open{fill:#0d1117}.card,.grid{stroke:#3d444d}.note{fill:#9198a1}
.s0{color:#4493f8}.s1{color:#f0883e}.s2{color:#9198a1}.s3{color:#ab7df8}.s4{color:#3fb950}.s5{color:#ff7b72}}`;

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`).replace(/[^\P{Cc}\n]/gu, ' ');
const tenth = (value: number): string => String(Math.round(value * 10) / 10);
const sayMs = (ms: number): string =>
  ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;

function text(x: number, y: number, said: string, kind = '', anchor = 'start'): string {
  return `<text x="${tenth(x)}" y="${tenth(y)}" class="${kind}" text-anchor="${anchor}">${escaped(said)}</text>`;
}
const line = (from: Point, to: Point, kind: string): string =>
  `<line x1="${tenth(from.x)}" y1="${tenth(from.y)}" x2="${tenth(to.x)}" y2="${tenth(to.y)}" class="${kind}"/>`;
const mark = ({ x, y }: Point, look: number, kind = '', size = 1): string =>
  `<path d="${LOOKS[look]?.mark ?? ''}" transform="translate(${tenth(x)},${tenth(y)})${size === 1 ? '' : ` scale(${size})`}" class="s${look} ${kind}"/>`;

/** 0.1 ms is the lowest: the hog knows its last moment no better. */
const yOfMs = (ms: number): number => {
  const part = Math.log(Math.min(MOST_MS, Math.max(LEAST_MS, ms)) / LEAST_MS) / Math.log(MOST_MS / LEAST_MS);
  return BOTTOM - part * (BOTTOM - TOP);
};
const yOfShare = (share: number): number => BOTTOM - share * (BOTTOM - TOP);

/** "max" is the last. */
function ratesOf(rows: readonly Row[]): readonly string[] {
  const order = (rate: string): number => (rate === 'max' ? Number.MAX_VALUE : Number(rate));
  return [...new Set(rows.map(({ rate }) => rate))].toSorted((a, b) => order(a) - order(b));
}

function axes(panel: Panel, rates: readonly string[], rows: readonly Row[]): string {
  const fastest = rows.find(({ rate, peer }) => rate === 'max' && peer === PRODUCT)?.rateMiB ?? null;
  const said = (rate: string): string => (rate === 'max' && fastest !== null ? `max (${fastest})` : rate);
  const labels = rates.map((rate, i) => text(xOf(panel, rates, i), BOTTOM + 18, said(rate), '', 'middle'));
  const middle = (panel.left + panel.right) / 2;
  return [...labels, text(middle, BOTTOM + 36, 'MiB a second that the hog takes', 'note', 'middle')].join('');
}

function xOf({ left, right }: Panel, rates: readonly string[], i: number): number {
  return left + ((i + 0.5) * (right - left)) / rates.length;
}

function timesPanel(rates: readonly string[], rows: readonly Row[]): string {
  const { left, right } = TIMES;
  const parts = TIME_TICKS.flatMap(([ms, said]) => [
    line({ x: left, y: yOfMs(ms) }, { x: right, y: yOfMs(ms) }, 'grid'),
    text(left - 8, yOfMs(ms) + 4, said, '', 'end'),
  ]);
  for (const { name, dx, label } of TIMED) {
    const look = LOOKS.findIndex((one) => one.name === name);
    for (const [i, rate] of rates.entries()) {
      const row = rows.find((one) => one.peer === name && one.rate === rate);
      const [median, p99] = row === undefined ? [] : [reactionOf(row, 0.5), reactionOf(row, 0.99)];
      if (median === undefined || p99 === undefined || Number.isNaN(median.ms)) continue;
      const x = xOf(TIMES, rates, i) + dx;
      const end = { x, y: yOfMs(p99.ms) };
      parts.push(line({ x, y: yOfMs(median.ms) }, end, `line s${look}`));
      parts.push(line({ x: x - 5, y: end.y }, { x: x + 5, y: end.y }, `line s${look}`));
      // Open: the kernel was first in some runs, so the true figure is longer.
      parts.push(mark({ x, y: yOfMs(median.ms) }, look, median.isAtLeast ? 'open' : ''));
      parts.push(
        text(
          x + label.dx,
          yOfMs(median.ms) + label.dy,
          median.ms.toFixed(median.ms < 10 ? 1 : 0),
          'note',
          label.anchor,
        ),
      );
    }
  }
  return parts.join('');
}

/** A loop of 10 s has a reaction of its own only where the hog stays. */
function slowLine(rows: readonly Row[]): string {
  const row = rows.find(({ peer, isStaying }) => peer === SLOW && isStaying);
  if (row === undefined || row.runs === 0) return '';
  const { ms } = reactionOf(row, 0.5);
  const y = yOfMs(ms);
  const look = LOOKS.findIndex(({ name }) => name === SLOW);
  return (
    line({ x: TIMES.left, y }, { x: TIMES.right, y }, `line s${look}`) +
    text(TIMES.left + 6, y + 16, `a loop of 10 s, where the hog waits for it: median ${sayMs(ms)}`, 'note')
  );
}

function sharesPanel(rates: readonly string[], rows: readonly Row[], ofGuest: readonly Row[]): string {
  const { left, right } = SHARES;
  const parts = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    line({ x: left, y: yOfShare(share) }, { x: right, y: yOfShare(share) }, 'grid'),
    text(left - 8, yOfShare(share) + 4, `${share * 100} %`, '', 'end'),
  ]);
  for (const [look, { name, isOfGuest }] of LOOKS.entries()) {
    const points = rates.flatMap((rate, i): Point[] => {
      const row = (isOfGuest ? ofGuest : rows).find((one) => one.peer === name && one.rate === rate);
      const share = row === undefined ? null : shareInTime(row);
      return share === null ? [] : [{ x: xOf(SHARES, rates, i), y: yOfShare(share) }];
    });
    if (points.length === 0) continue;
    const drawn = points.map(({ x, y }) => `${tenth(x)},${tenth(y)}`).join(' ');
    parts.push(
      `<polyline points="${drawn}" class="line s${look}${isOfGuest ? ' guest' : ''}${look === 0 ? ' wide' : ''}"/>`,
    );
    // The first one is larger: others lie on it.
    parts.push(...points.map((point) => mark(point, look, '', look === 0 ? 1.6 : 1)));
  }
  return parts.join('');
}

function legend(names: ReadonlySet<string>): string {
  const shown = LOOKS.flatMap((look, i) => (names.has(look.name) ? [{ ...look, i }] : []));
  let x = TIMES.left;
  return shown
    .map(({ name, i, isOfGuest }) => {
      const said = isOfGuest ? `${name} *` : name;
      const part = mark({ x, y: HEIGHT - 72 }, i) + text(x + 12, HEIGHT - 68, said);
      x += 40 + said.length * 6.4;
      return part;
    })
    .join('');
}

/** What the picture says to who does not see it. */
function described(rows: readonly Row[], ofGuest: readonly Row[]): string {
  const share = (row: Row): string => `${row.peer} at ${row.rate} MiB/s: in time in ${row.inTime} of ${row.runs} runs`;
  const withTime = (row: Row): string => {
    const { ms, isAtLeast } = reactionOf(row, 0.5);
    return share(row) + (Number.isNaN(ms) ? '' : `, median ${isAtLeast ? 'over ' : ''}${sayMs(ms)}`);
  };
  const isRun = ({ runs }: Row): boolean => runs > 0;
  return [...rows.filter(isRun).map(withTime), ...ofGuest.filter(isRun).map(share)].join('; ');
}

function captions({ on, nodeMiB, thresholdMiB }: ReactionResult, guest: ReactionResult | null): readonly string[] {
  const date = on.at.slice(0, 10);
  const where = `${on.cpu}, ${on.cores} cores, ${on.memoryGiB} GiB, Linux ${on.kernel}, Node.js ${on.node}, ${date}, commit ${on.commit}`;
  return [
    `Node of ${nodeMiB} MiB, hard threshold ${thresholdMiB} MiB. Mark: median, line: to p99, open mark: the kernel was first in some runs.`,
    where,
    ...(guest === null
      ? []
      : ['* in a virtual machine with cgroup v2, emulated on the same machine, with a node of half the size.']),
  ];
}

/** Both panels. `guest` only adds what does not run on the machine itself, at rates that it really reached. */
export function plotReaction(host: ReactionResult, guest: ReactionResult | null): string {
  const rows = host.rows.filter(({ isStaying }) => !isStaying);
  const rates = ratesOf(rows);
  const guestLooks = LOOKS.filter(({ isOfGuest }) => isOfGuest).map(({ name }) => name);
  const ofGuest = (guest?.rows ?? []).filter(
    ({ peer, rate, rateMiB, isStaying }) =>
      guestLooks.includes(peer) && !isStaying && rate !== 'max' && (rateMiB ?? 0) >= 0.9 * Number(rate),
  );
  const names = new Set([...rows, ...ofGuest].filter(({ runs }) => runs > 0).map(({ peer }) => peer));
  const notes = captions(host, ofGuest.length > 0 ? guest : null);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="t d">
<title id="t">How fast a hog is ended, and how often before the kernel kills</title>
<desc id="d">${escaped(described(rows, ofGuest))}</desc>
<style>${STYLE}</style>
<rect x=".5" y=".5" width="${WIDTH - 1}" height="${HEIGHT - 1}" rx="6" class="card"/>
${text(18, 34, 'From the crossing to SIGKILL', 'head')}${text(18, 54, 'of a threshold by a real hog', 'note')}
${text(SHARES.left - 44, 34, 'In time', 'head')}${text(SHARES.left - 44, 54, 'share of runs in which the right pod went before the kernel killed', 'note')}
${axes(TIMES, rates, rows)}${timesPanel(rates, rows)}${slowLine(host.rows)}
${axes(SHARES, rates, rows)}${sharesPanel(rates, rows, ofGuest)}
${legend(names)}
${notes.map((note, i) => text(18, HEIGHT - 44 + 15 * i, note, 'note')).join('')}
</svg>
`;
}

/** Writes the picture; false: there is nothing to draw. */
export function writePlot(): boolean {
  const host = readResult<ReactionResult>('reaction');
  if (host === null) return false;
  fs.writeFileSync(resultFile('reaction.svg'), plotReaction(host, readResult<ReactionResult>('guest')));
  return true;
}

if (process.argv[1] !== undefined && path.resolve(process.argv[1]) === import.meta.filename) {
  if (!writePlot()) throw new Error('bench/results/reaction.json is not there');
}
