import { isDisk, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { SignalStatus, StatusReport, ThresholdStatus } from '../serve/status.ts';
import { type Chart, createChart } from './chart.ts';
import { byId, el, keep, setClass, setText } from './dom.ts';
import { crossesInMs, type Trend, trendOf } from './forecast.ts';
import type { RecentSamples } from './recent-samples.ts';
import { sayAbout, sayAmount, sayFor, sayShort } from './say.ts';

/** The next threshold that a signal will cross. */
export type Forecast = { readonly signal: Signal; readonly kind: 'hard' | 'soft'; readonly inMs: number };
type Card = { readonly root: HTMLElement; readonly show: (status: StatusReport, of: SignalStatus) => Forecast | null };
export type SignalsView = { readonly show: (status: StatusReport) => readonly Forecast[] };

/** A card for each signal that applies here. */
export function createSignalsView(samples: RecentSamples): SignalsView {
  const cards = new Map<Signal, Card>();
  return {
    show: (status) => {
      const own = status.signals.filter(({ aliasOf }) => aliasOf === null);
      const shown = own.filter(({ unknown }) => unknown?.why !== 'not-applicable');
      const forecasts = shown.flatMap((of) => {
        const card = cards.get(of.signal) ?? createCard(of.signal, samples);
        cards.set(of.signal, card);
        const forecast = card.show(status, of);
        return forecast === null ? [] : [forecast];
      });
      const roots = shown.flatMap(({ signal }) => cards.get(signal)?.root ?? []);
      const place = byId('cards');
      if (roots.some((root, i) => place.children[i] !== root) || place.children.length !== roots.length)
        place.replaceChildren(...roots);
      showUnused(own);
      return forecasts;
    },
  };
}

function showUnused(own: readonly SignalStatus[]): void {
  const absent = own.filter(({ unknown }) => unknown?.why === 'not-applicable');
  const isOff = ({ signal, thresholds }: SignalStatus): boolean =>
    thresholds.length === 0 && SIGNAL_FACTS[signal].sampled === 'if-configured';
  const said = [
    ['Not applicable on this node', absent.filter((of) => !isOff(of))],
    ['Not configured', absent.filter(isOff)],
  ] as const;
  const texts = said
    .filter(([, of]) => of.length > 0)
    .map(([what, of]) => `${what}: ${of.map(({ signal }) => signal).join(', ')}.`);
  setText(byId('unused'), texts.join(' '));
}

function createCard(signal: Signal, samples: RecentSamples): Card {
  const value = el('p', { class: 'amount' });
  const ahead = el('p', { class: 'ahead' });
  const limits = el('ul', { class: 'limits' });
  const notes = el('div', { class: 'notes' });
  const place = el('div', { class: 'chart', 'aria-hidden': 'true' });
  const pointed = el('p', { class: 'pointed', 'aria-hidden': 'true' });
  const frame = el('div', { class: 'frame' }, place, pointed);
  const root = el('article', { class: 'card' }, el('h3', {}, signal), value, ahead, frame, limits, notes);
  let chart: Chart | null = null;
  return {
    root,
    show: (status, of) => {
      const { available, capacity, unknown } = of;
      setClass(root, `card ${levelOf(of)}`);
      if (available === null || capacity === null) {
        const why = unknown === null ? 'not known' : `${unknown.detail} (${unknown.where})`;
        keep(value, [el('strong', {}, 'Unknown')]);
        setText(ahead, why);
        keep(
          limits,
          of.thresholds.map((threshold) => limitOf(signal, threshold)),
        );
        frame.hidden = true;
        return null;
      }
      frame.hidden = false;
      keep(value, [
        el('strong', {}, sayAmount(signal, available)),
        el('span', {}, `available of ${sayAmount(signal, capacity)}`),
      ]);
      const trend = trendOf(samples.points(signal), status.atWallMs);
      const next = nextOf(of, available, trend);
      setText(ahead, aheadText(signal, of, trend, next));
      keep(
        limits,
        of.thresholds.map((threshold) => limitOf(signal, threshold)),
      );
      keep(notes, notesOf(signal, status, of, samples));
      chart ??= createChart(
        place,
        (amount) => sayAmount(signal, amount),
        (amount) => sayShort(signal, amount),
        (text) => setText(pointed, text),
      );
      chart.show(
        {
          ...samples.curve(signal),
          capacity,
          lines: of.thresholds.flatMap(({ limit, kind }) => (limit === null ? [] : [{ amount: limit, kind }])),
          evictions: status.decisions.flatMap((decision) =>
            decision.kind === 'evict' && decision.signal === signal ? [decision.atWallMs / 1_000] : [],
          ),
        },
        status.atWallMs / 1_000,
      );
      return next;
    },
  };
}

function levelOf({ unknown, thresholds }: SignalStatus): 'ok' | 'warn' | 'bad' {
  if (thresholds.some(({ kind, isMet }) => kind === 'hard' && isMet)) return 'bad';
  return unknown !== null || thresholds.some(({ isMet, metForMs }) => isMet || metForMs !== null) ? 'warn' : 'ok';
}

/** The threshold that is crossed first at this trend. */
function nextOf({ signal, thresholds }: SignalStatus, available: number, trend: Trend): Forecast | null {
  const all = thresholds.flatMap(({ kind, limit }) => {
    const inMs = limit === null ? null : crossesInMs(available, limit, trend);
    return inMs === null ? [] : [{ signal, kind, inMs }];
  });
  return all.toSorted((a, b) => a.inMs - b.inMs)[0] ?? null;
}

function aheadText(signal: Signal, { thresholds }: SignalStatus, trend: Trend, next: Forecast | null): string {
  if (thresholds.length === 0) return 'No threshold is set for it.';
  if (thresholds.every(({ isMet }) => isMet)) return 'Below every threshold.';
  if (next !== null)
    return `Reaches its ${next.kind} threshold in ${sayAbout(next.inMs)} at the current rate, ${rateText(signal, trend)}.`;
  switch (trend.kind) {
    case 'too-few':
      return 'Its rate is not known yet.';
    case 'steady':
      return 'Steady: no threshold is in sight.';
    case 'rising':
      return 'Rising: no threshold is in sight.';
    case 'falling':
      return `Falling by ${rateText(signal, trend)}: more than an hour to a threshold.`;
  }
}

function rateText(signal: Signal, trend: Trend): string {
  if (trend.kind !== 'falling') return '';
  const perSecond = -trend.perSecond;
  return perSecond >= 1
    ? `${sayAmount(signal, Math.round(perSecond))} per second`
    : `${sayAmount(signal, Math.ceil(perSecond * 60))} per minute`;
}

function limitOf(signal: Signal, threshold: ThresholdStatus): HTMLElement {
  const { kind, limit, minReclaim, graceMs, graceLeftMs, metForMs, isMet } = threshold;
  const what = limit === null ? 'below an unknown amount' : `below ${sayAmount(signal, limit)}`;
  const grace = graceMs > 0 ? `, for ${sayFor(graceMs)}` : '';
  const reclaim = minReclaim === null || minReclaim === 0 ? '' : `, until ${sayAmount(signal, minReclaim)} above it`;
  const twin = /^allocatableMemory.*\/twin$/.test(threshold.id) ? ' (from memory.available)' : '';
  const left = graceLeftMs !== null && graceLeftMs > 0 ? `, ${sayFor(graceLeftMs)} of its grace period left` : '';
  const met =
    metForMs === null
      ? isMet
        ? ': met'
        : ''
      : `: ${isMet ? 'met' : 'above it again, but counted as met'} for ${sayFor(metForMs)}${left}`;
  const isOn = isMet || metForMs !== null;
  return el(
    'li',
    { class: `limit ${kind}${isOn ? ' met' : ''}` },
    el('b', {}, kind),
    ` ${what}${grace}${reclaim}${twin}${met}`,
  );
}

function notesOf(
  signal: Signal,
  { memory, atWallMs }: StatusReport,
  { ageMs }: SignalStatus,
  samples: RecentSamples,
): readonly HTMLElement[] {
  const { at, amounts } = samples.curve(signal);
  const known = amounts.flatMap((amount, i) => (amount === null ? [] : [{ amount, atMs: (at[i] ?? 0) * 1_000 }]));
  const lowest = known.toSorted((a, b) => a.amount - b.amount)[0];
  const other = memory.counted === 'workingSet' ? memory.reclaimableAvailableBytes : memory.workingSetAvailableBytes;
  const ways = memory.counted === 'workingSet' ? 'by what could really be freed' : 'by working set';
  const span = known.length > 1 ? atWallMs - (known[0]?.atMs ?? atWallMs) : 0;
  const within = span > 3_500_000 ? 'the last hour' : `the last ${sayFor(Math.max(10_000, span))}`;
  const lines = [
    ...(lowest === undefined || span < 10_000 ? [] : [`Lowest in ${within}: ${sayAmount(signal, lowest.amount)}.`]),
    ...(signal === 'memory.available' && other !== null
      ? [`Measured ${ways}, ${sayAmount(signal, other)} would be available.`]
      : []),
    ...(ageMs !== null && ageMs >= (isDisk(signal) ? 15_000 : 2_000)
      ? [`Measured ${sayFor(ageMs)} before this sample.`]
      : []),
  ];
  return lines.map((line) => el('p', {}, line));
}
