import { atMost, type Bar, quantile } from '../result.ts';
import type { Sample } from './agent.ts';
import type { RealSoak } from './real.ts';
import type { VirtualSoak } from './virtual.ts';

/** Of a process that has warmed up. */
const MOST_GROWTH_PERCENT = 5;
/** The walk of a directory, a question at the socket. */
const SPARE_DESCRIPTORS = 2;
/** Fewer samples tell a leak from nothing. */
const LEAST_SAMPLES = 20;
const WARM_UP_SHARE = 0.1;
/** A heap that still warms up for a good part of the run is no leak. */
const LEAST_HOURS = 12;

export function barsOfReal(soak: RealSoak): readonly Bar[] {
  const { samples, decisions, problems } = soak;
  const warm = samples.slice(Math.ceil(samples.length * WARM_UP_SHARE));
  return [
    exactly('real: mistakes (wrong victim, other derivation, lost entry, late rest)', 0, problems.length),
    exactly('real: evictions derived again by simulate, of all', decisions['evict'] ?? 0, soak.replayed),
    exactly('real: kills by the kernel', 0, soak.kernelOomKills),
    exactly('real: restarts of the agent', 0, soak.restarts),
    atMost(
      'real: growth of memory, last quarter over first',
      MOST_GROWTH_PERCENT,
      growth(warm, (one) => one.rssKiB),
      '%',
    ),
    atMost(
      'real: growth of anonymous memory',
      MOST_GROWTH_PERCENT,
      growth(warm, (one) => one.anonKiB ?? Number.NaN),
      '%',
    ),
    atMost(
      'real: more descriptors',
      SPARE_DESCRIPTORS,
      more(warm, (one) => one.descriptors),
      '',
    ),
    atMost(
      'real: more threads',
      0,
      more(warm, (one) => one.threads),
      '',
    ),
    atMost(
      'real: more children',
      0,
      more(warm, (one) => one.children),
      '',
    ),
    atMost(
      'real: more cgroups',
      0,
      more(warm, (one) => one.cgroups),
      '',
    ),
    atMost(
      'real: more files of the state',
      0,
      more(warm, (one) => one.runtimeFiles),
      '',
    ),
    {
      name: 'real: locks left',
      bar: '0',
      value: 'no logind here, so none is taken (npm run lab:shutdown)',
      holds: null,
    },
  ];
}

export function barsOfVirtual(soak: VirtualSoak): readonly Bar[] {
  const { decisions, hours, heapGrowth } = soak;
  const growthPercent = hours < LEAST_HOURS ? Number.NaN : heapGrowth * 100;
  return [
    exactly('virtual: mistakes', 0, soak.problems.length),
    exactly('virtual: evictions derived again by simulate, of all', decisions['evict'] ?? 0, soak.replayed),
    atMost('virtual: growth of the heap after the first tenth', MOST_GROWTH_PERCENT, growthPercent, '%'),
  ];
}

/** MiB an hour by least squares, after the warm-up. NaN of nothing. */
export function slopeMiB(samples: readonly Sample[]): number {
  const warm = samples.slice(Math.ceil(samples.length * WARM_UP_SHARE));
  const mean = (of: (sample: Sample) => number): number => warm.reduce((sum, one) => sum + of(one), 0) / warm.length;
  const hours = mean(({ minute }) => minute / 60);
  const mib = mean(({ rssKiB }) => rssKiB / 1024);
  const over = warm.reduce((sum, one) => sum + (one.minute / 60 - hours) * (one.rssKiB / 1024 - mib), 0);
  return over / warm.reduce((sum, one) => sum + (one.minute / 60 - hours) ** 2, 0);
}

function exactly(name: string, wanted: number, value: number): Bar {
  return { name, bar: `${wanted}`, value: `${value}`, holds: value === wanted };
}

type Quarters = { readonly first: readonly number[]; readonly last: readonly number[] };

function quartersOf(samples: readonly Sample[], of: (sample: Sample) => number): Quarters | null {
  if (samples.length < LEAST_SAMPLES) return null;
  const length = Math.floor(samples.length / 4);
  return { first: samples.slice(0, length).map(of), last: samples.slice(-length).map(of) };
}

/** Of the median, in percent; NaN of too few. */
function growth(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const quarters = quartersOf(samples, of);
  return quarters === null ? Number.NaN : (quantile(quarters.last, 0.5) / quantile(quarters.first, 0.5) - 1) * 100;
}

/** Of the most; NaN of too few. */
function more(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const quarters = quartersOf(samples, of);
  return quarters === null ? Number.NaN : Math.max(...quarters.last) - Math.max(...quarters.first);
}
