import type { Change } from '../core/explain.ts';
import { EVICT_FOR, evictResourceOf } from '../core/pod/evict-for.ts';
import { type Resource, SIGNAL_FACTS, type Signal, usageUnit } from '../core/signal.ts';
import { sayBytes } from '../core/units/quantity.ts';
import { sayAmount } from './phrases.ts';

/** Where annotations of pods count; in a scenario it is not known. */
type Where = { readonly kind: 'live' | 'scenario'; readonly mode?: 'standalone' | 'kubelet' };

/** "below 96 MiB of memory", "with a priority above 10": one fact that alone would change whether the pod is chosen first. */
export function sayChange(signal: Signal, change: Change, { mode }: Where): string {
  const only = mode === 'kubelet' ? 'only in a namespace of kubernetes.protectNamespaces' : '';
  const { resource, counts } = SIGNAL_FACTS[signal];
  switch (change.what) {
    case 'usage': {
      if (change.bound === 'at-most' && change.value === 0) return `with no ${USED[resource]} at all`;
      const memory = counts === 'memoryAndSwapBytes' ? ' of memory and swap' : ' of memory';
      const of = resource === 'memory' ? memory : resource === 'ephemeral-storage' ? ' of local storage' : '';
      return `${boundText(change, (amount, way) => sayRounded(signal, amount, way))}${of}`;
    }
    case 'priority':
      return `with a priority ${boundText(change, String)}`;
    case 'request': {
      const name = resource === 'memory' ? 'memory' : 'ephemeral-storage';
      if (change.bound === 'at-least')
        return `with a request of at least ${roundedBytes(change.value, 'up')} of ${name}`;
      const least =
        change.value === 0 ? 'without a request' : `with a request below ${roundedBytes(change.value + 1, 'down')}`;
      return `${least}${change.value === 0 ? ' for' : ' of'} ${name}`;
    }
    case 'protection':
      if (change.now) return 'without its protection';
      return `if protected (nodewarden.dev/protect${only && `, ${only}`})`;
    case 'evict-for':
      // It has one that counts.
      if (!change.now) return `if ${EVICT_FOR} named ${evictResourceOf(signal)}`;
      return `if ${EVICT_FOR} left out ${evictResourceOf(signal)}${only && ` (${only})`}`;
  }
}

const USED: { readonly [R in Resource]: string } = {
  memory: 'memory',
  'ephemeral-storage': 'local storage',
  inodes: 'inodes',
  pids: 'processes',
};

type NumberChange = Exclude<Change, { what: 'protection' | 'evict-for' }>;
type Way = 'down' | 'up';

/** Rounded to the safe side: what the text promises is so. */
function boundText({ bound, value }: NumberChange, say: (amount: number, way: Way) => string): string {
  return bound === 'at-most' ? `below ${say(value + 1, 'down')}` : `above ${say(value - 1, 'up')}`;
}

function sayRounded(signal: Signal, amount: number, way: Way): string {
  return usageUnit(signal) === 'bytes' ? roundedBytes(amount, way) : sayAmount(signal, amount);
}

/** sayBytes() cuts to a tenth of its unit; `up`: to the next tenth. */
function roundedBytes(bytes: number, way: Way): string {
  const cut = sayBytes(bytes);
  if (way === 'down' || bytes < 1024) return cut;
  const [tenths = '', unit = ''] = cut.split(' ');
  const isExact = Number(tenths) * 1024 ** UNITS.indexOf(unit) === bytes;
  return isExact ? cut : `${(Math.round(Number(tenths) * 10) + 1) / 10} ${unit}`;
}
const UNITS: readonly string[] = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
