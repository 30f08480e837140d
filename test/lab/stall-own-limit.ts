// Pods that stall in a memory limit of their own, beside one that grows within its request: D17 stops neither.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { sleep } from '../../src/host/clock.ts';
import { clock } from './scene.ts';
import { run, SLICE, type Swap } from './stall-node.ts';
import { type Sample, stallShares } from './stall-samples.ts';
import { DB, isActive, onStall, play, STALL, start, type Unit, unitOf, watched } from './stall-scene.ts';

/** `leastRestarts`: so often it dies of its limit; without it, it lives to the end. */
type Limited = { readonly what: string; readonly unit: Unit; readonly leastRestarts?: number };

const STALLS_S = 60;
const LIMIT_MIB = 24;
/** As large as the limit, of which perl needs a part for itself. */
const FILE = '/var/lib/nodewarden-lab-reread';
/** Any stall counts, however much is available: that of others would be a stall of the node in earnest. */
const STALL_OF_ANY = { ...STALL, belowShare: 0.99 } as const;
const OTHER: Unit = { name: 'other', command: ['grow', '60', '1'], requestMiB: 100 };

const limited: readonly Limited[] = [
  {
    what: 'reads a file again and again that is larger than its MemoryMax',
    // File pages can always be taken: nothing dies of this limit.
    unit: { name: 'capped', command: ['reread', FILE], service: [`MemoryMax=${LIMIT_MIB}M`, 'MemorySwapMax=0'] },
  },
  {
    what: 'grows beyond its MemoryHigh, which the kernel slows down for up to 2 s at a time',
    unit: { name: 'slowed', command: ['grow', '200', '100'], service: [`MemoryHigh=${LIMIT_MIB}M`, 'MemorySwapMax=0'] },
  },
  {
    what: 'grows beyond its MemoryMax, dies of it and is started anew, again and again',
    unit: {
      name: 'dying',
      command: ['grow', '200', '100'],
      service: [`MemoryMax=${LIMIT_MIB}M`, 'Restart=always', 'RestartSec=100ms'],
    },
    leastRestarts: 3,
  },
];

function writeFile(): void {
  run('dd', 'if=/dev/zero', `of=${FILE}`, 'bs=1M', `count=${LIMIT_MIB}`, 'conv=fsync');
  // Its pages are nobody's yet: who reads them first pays for them.
  fs.writeFileSync('/proc/sys/vm/drop_caches', '1');
}

/** Of the life of its cgroup that is there now, if one is. */
function ownFigures(unit: Unit): string {
  const directory = `/sys/fs/cgroup/${SLICE}/${unitOf(unit)}`;
  const of = (file: string, pattern: RegExp): string => {
    try {
      return pattern.exec(fs.readFileSync(`${directory}/${file}`, 'latin1'))?.[1] ?? '?';
    } catch {
      return '?';
    }
  };
  const hits = Number(of('memory.events', /^high (\d+)$/m)) + Number(of('memory.events', /^max (\d+)$/m));
  const stalledS = (Number(of('memory.pressure', /^full .*total=(\d+)$/m)) / 1e6).toFixed(1);
  return `its own stall ${stalledS} s, ${hits} times at its limit, ${run('systemctl', 'show', '-P', 'Result', unitOf(unit))}`;
}

export function ownLimitScenes(swap: Swap): readonly { readonly name: string; readonly body: () => Promise<string> }[] {
  return limited.map(({ what, unit, leastRestarts }) => ({
    name: `${swap.name}: a pod ${what}: nobody is stopped`,
    body: () => stallsInItsLimit(swap, unit, leastRestarts ?? null),
  }));
}

async function stallsInItsLimit(swap: Swap, unit: Unit, leastRestarts: number | null): Promise<string> {
  let [isRunning, restarts, own] = [false, 0, ''];
  const body = async (): Promise<readonly Sample[]> => {
    if (unit.command.includes(FILE)) writeFile();
    start(OTHER, 'nodewarden');
    await sleep(clock, 5_000);
    start(unit, 'nodewarden');
    const staying = leastRestarts === null ? [OTHER, DB, unit] : [OTHER, DB];
    const samples = await watched(staying, STALLS_S, 'leave');
    isRunning = staying.every(isActive);
    restarts = Number(run('systemctl', 'show', '-P', 'NRestarts', unitOf(unit)));
    own = ownFigures(unit);
    return samples;
  };
  const { samples, evicted, kernelKills } = await play(swap, 'nodewarden', body, onStall(STALL_OF_ANY));
  const most = Math.max(...stallShares(samples, STALL_OF_ANY));
  const died = `started anew ${restarts} times, the kernel killed ${kernelKills} times`;
  const figures = `stall of the node up to ${Math.round(most * 100)} % of 10 s; ${own}; ${died}; evicted: ${evicted.join(', ') || 'nobody'}`;
  assert.deepEqual([evicted, isRunning], [[], true], figures);
  if (leastRestarts === null) assert.deepEqual([kernelKills, restarts], [0, 0], figures);
  else assert(restarts >= leastRestarts, figures);
  assert(most >= STALL.fullShare, `it would be due if the pod's own stall counted: ${figures}`);
  return figures;
}
