import uPlot from 'uplot';
import { sayTime } from './say.ts';

type Line = { readonly amount: number; readonly kind: 'hard' | 'soft' };
type Curve = {
  /** Seconds since 1970. */
  readonly at: readonly number[];
  readonly amounts: readonly (number | null)[];
  readonly capacity: number;
  readonly lines: readonly Line[];
  /** When pods were evicted for it, in seconds since 1970. */
  readonly evictions: readonly number[];
};
export type Chart = { readonly show: (curve: Curve, nowSeconds: number) => void };

/** An hour, or less after the start. */
const SPANS_SECONDS = { most: 3_600, least: 300 };
const HEIGHT = 116;
const FONT = '11px system-ui, sans-serif';

/** The last hour of one amount above its thresholds. It is only a picture: the text beside it says what it shows. */
export function createChart(
  place: HTMLElement,
  sayAmount: (amount: number) => string,
  sayShort: (amount: number) => string,
  pointed: (text: string) => void,
): Chart {
  let curve: Curve = { at: [], amounts: [], capacity: 0, lines: [], evictions: [] };
  let nowSeconds = 0;
  const colour = (name: string): string => getComputedStyle(place).getPropertyValue(name).trim();
  const plot = new uPlot(
    {
      width: 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      padding: [8, 18, 0, 0],
      scales: {
        x: { time: true, range: () => [startOf(curve, nowSeconds), nowSeconds] },
        y: { range: (_, __, max) => [0, topOf(curve, max)] },
      },
      axes: [
        {
          stroke: () => colour('--muted'),
          font: FONT,
          size: 22,
          gap: 4,
          ticks: { show: false },
          grid: { show: false },
          space: 84,
          values: (_, splits) => splits.map((at) => sayTime(at * 1_000).slice(0, 5)),
        },
        {
          stroke: () => colour('--muted'),
          font: FONT,
          size: 58,
          gap: 6,
          ticks: { show: false },
          grid: { stroke: () => colour('--line'), width: 1 },
          splits: (_, __, ___, max) => [0, max / 2, max],
          values: (_, splits) => splits.map((amount) => (amount === 0 ? '0' : sayShort(Math.round(amount)))),
        },
      ],
      series: [
        {},
        {
          stroke: () => colour('--series'),
          fill: () => colour('--series-fill'),
          width: 1.75,
          points: { show: (self) => self.data[0].length < 3, size: 5 },
        },
      ],
      hooks: {
        draw: [(self) => drawMarks(self, curve, colour)],
        setCursor: [
          (self) => {
            const at = self.cursor.idx;
            const [seconds, amount] = at == null ? [] : [curve.at[at], curve.amounts[at]];
            const isShown = seconds !== undefined && amount !== undefined && (self.cursor.left ?? -1) >= 0;
            pointed(isShown ? `${sayTime(seconds * 1_000)}: ${amount === null ? 'unknown' : sayAmount(amount)}` : '');
          },
        ],
      },
    },
    [[], []],
    place,
  );
  const fit = (): void => plot.setSize({ width: Math.max(120, Math.floor(place.clientWidth)), height: HEIGHT });
  new ResizeObserver(fit).observe(place);
  // Colours are those of the style sheet.
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plot.redraw());
  return {
    show: (next, now) => {
      curve = next;
      nowSeconds = now;
      plot.setData([[...next.at], [...next.amounts]]);
    },
  };
}

function startOf({ at }: Curve, nowSeconds: number): number {
  const { most, least } = SPANS_SECONDS;
  return nowSeconds - Math.min(most, Math.max(least, nowSeconds - (at[0] ?? nowSeconds)));
}

/**
 * A round amount above everything that is drawn: up to the capacity, a low amount would be a flat line at the bottom.
 */
function topOf({ capacity, lines, amounts }: Curve, max: number | null): number {
  const most = Math.max(max ?? 0, ...lines.map(({ amount }) => amount), ...(amounts.length === 0 ? [capacity] : []));
  const wanted = Math.max(1, most * 1.08);
  const step = 2 ** Math.floor(Math.log2(wanted)) / 4;
  const top = Math.ceil(wanted / step) * step;
  return most <= capacity ? Math.min(top, capacity) : top;
}

function drawMarks(plot: uPlot, { lines, evictions }: Curve, colour: (name: string) => string): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const { amount, kind } of lines) {
    const y = Math.round(plot.valToPos(amount, 'y', true)) - ratio / 2;
    ctx.strokeStyle = colour(kind === 'hard' ? '--bad' : '--warn');
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash(kind === 'hard' ? [] : [5 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  for (const at of evictions) {
    const x = plot.valToPos(at, 'x', true);
    ctx.strokeStyle = ctx.fillStyle = colour('--ink');
    ctx.lineWidth = ratio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x - 4 * ratio, bbox.top);
    ctx.lineTo(x + 4 * ratio, bbox.top);
    ctx.lineTo(x, bbox.top + 6 * ratio);
    ctx.fill();
  }
  ctx.restore();
}
