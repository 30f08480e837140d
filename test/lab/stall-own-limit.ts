// Pods that stall in a memory limit of their own, beside one that grows within its request: D17 stops neither.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { run, SLICE, type Swap } from './stall-node.ts';
import { type Sample, stallShares } from './stall-samples.ts';
import { DB, isActive, onStall, play, type Unit, unitOf, untilKnown, watched } from './stall-scene.ts';

/** `leastRestarts`: so often it dies of its limit; without it, it lives to the end. */
type Limited = { readonly unit: Unit; readonly leastRestarts?: number };

const STALLS_S = 40;
const LIMIT_MIB = 24;
/** As large as the limit, of which perl needs a part for itself. */
const FILE = '/var/lib/nodewarden-lab-reread';
/**
 * Any stall counts, however much is available: that of others would be a stall of the node in earnest. The shortest
 * window has the shortest steps, in most of which such a pod does not reach its limit once.
 */
const STALL_OF_ANY = { fullShare: 0.3, forMs: 1_000, belowShare: 0.99 } as const;
const OTHER: Unit = { name: 'other', command: ['grow', '80', '0.5'], requestMiB: 120 };

/** Each waits for its turn. */
const gateOf = (name: string): string => `/run/nodewarden-lab-go-${name}`;
const limited: readonly Limited[] = [
  // It reads more than it may keep. File pages can always be taken, so nothing dies of that.
  {
    unit: {
      name: 'capped',
      command: ['after', gateOf('capped'), 'reread', FILE],
      service: [`MemoryMax=${LIMIT_MIB}M`, 'MemorySwapMax=0'],
    },
  },
  // Nothing of it can be taken: the kernel makes it sleep, up to 2 s at each page.
  {
    unit: {
      name: 'slowed',
      command: ['after', gateOf('slowed'), 'grow', '200', '100'],
      service: ['MemoryHigh=8M', 'MemorySwapMax=0'],
    },
  },
  // As the first, until there is no room for the file at all.
  {
    unit: {
      name: 'dying',
      command: ['after', gateOf('dying'), 'reread', FILE, '3'],
      service: [`MemoryMax=${LIMIT_MIB}M`, 'MemorySwapMax=0', 'Restart=always', 'RestartSec=100ms'],
    },
    leastRestarts: 2,
  },
];

const writeFile = (): string => run('dd', 'if=/dev/zero', `of=${FILE}`, 'bs=1M', `count=${LIMIT_MIB}`, 'conv=fsync');
/** Who reads it first pays for its pages, and they stay when he is gone. */
const uncacheFile = (): string => run('dd', `if=${FILE}`, 'iflag=nocache', 'count=0');

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

/** One after another: an emulated machine needs minutes to begin a scene. */
export async function stallInOwnLimits(swap: Swap): Promise<string> {
  const said: string[] = [];
  const pods = [DB, OTHER, ...limited.map(({ unit }) => unit)];
  writeFile();
  for (const { name } of pods) fs.rmSync(gateOf(name), { force: true });
  const body = async (): Promise<readonly Sample[]> => {
    await untilKnown(pods);
    for (const one of limited) said.push(await stallsInItsLimit(one));
    return [];
  };
  const { evicted } = await play(swap, 'nodewarden', { pods, config: onStall(STALL_OF_ANY) }, body);
  const figures = `${said.join('; ')}; evicted: ${evicted.join(', ') || 'nobody'}`;
  assert.deepEqual(evicted, [], figures);
  return figures;
}

async function stallsInItsLimit({ unit, leastRestarts }: Limited): Promise<string> {
  uncacheFile();
  fs.writeFileSync(gateOf(unit.name), '');
  const staying = leastRestarts === undefined ? [OTHER, DB, unit] : [OTHER, DB];
  const samples = await watched(staying, STALLS_S, 'leave');
  const most = Math.max(...stallShares(samples, STALL_OF_ANY));
  const gone = staying.filter((one) => !isActive(one)).map(({ name }) => name);
  const restarts = Number(run('systemctl', 'show', '-P', 'NRestarts', unitOf(unit)));
  const figures = `${unit.name}: stall of the node up to ${Math.round(most * 100)} % of 1 s, ${ownFigures(unit)}, started anew ${restarts} times, gone: ${gone.join(', ') || 'nobody'}`;
  run('systemctl', 'stop', unitOf(unit));
  console.log(`        ${figures}`);
  assert.deepEqual(gone, [], figures);
  assert(restarts >= (leastRestarts ?? 0), figures);
  assert(most >= STALL_OF_ANY.fullShare, `it would be due if the pod's own stall counted: ${figures}`);
  return figures;
}
