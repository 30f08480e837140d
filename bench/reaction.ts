// `npm run bench:reaction [-- --runs N --rates 50,250,1024,max --only PEER]`, as root: from the moment in which a hog crosses a hard
// threshold of 200Mi to its last moment, and until the memory is back: for this agent and for others, in one run.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type Scene, withScene } from '../test/lab/scene.ts';
import { type Breach, breach, crossingOf, readNumber, usageFile, type Watch } from './breach.ts';
import { has, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const MIB = 1024 * 1024;
const NODE_MIB = 1_024;
const THRESHOLD_MIB = 200;
const SLOW_LOOP = path.join(import.meta.dirname, 'slow-loop.pl');

type Peer = {
  readonly name: string;
  /** Of the runs asked for: those of some take long. */
  readonly mostRuns: number;
  /** Null: it can run here. */
  readonly missing: () => string | null;
  /** This agent acts on the node, or only looks on. */
  readonly isAgent: boolean;
  readonly watch: (scene: Scene) => Watch;
  readonly isHogAlone: boolean;
  /** Started beside each hog; the function ends it. */
  readonly beside: (pid: number, watch: Watch) => () => void;
};

const ofNode = (scene: Scene): Watch => crossingOf(scene, NODE_MIB * MIB, THRESHOLD_MIB * MIB);
const nothing = (): void => undefined;

/** Ends the hog itself when it sees the crossing: how long the end of such a process takes at least. */
function bareKill(pid: number, { file, limit }: Watch): () => void {
  const timer = setInterval(() => {
    if (readNumber(file) <= limit) return;
    process.kill(pid, 'SIGKILL');
    clearInterval(timer);
  }, 1);
  return () => clearInterval(timer);
}

function slowLoop(pid: number, { file, limit }: Watch): () => void {
  const loop = spawn('/usr/bin/perl', [SLOW_LOOP, '10', String(pid), file, String(limit)], { stdio: 'ignore' });
  return () => void loop.kill('SIGKILL');
}

/** MemAvailable of the whole machine, as far below now as the hog still has to go in the node. */
function ofMachine(scene: Scene): Watch {
  const available = Number(/^MemAvailable:\s+(\d+)/m.exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[1]) * 1024;
  const { limit } = ofNode(scene);
  return { file: '/proc/meminfo', limit: available - (limit - readNumber(usageFile(scene))) };
}

/** It sees the whole machine's memory, and of its processes the hog alone: it may look for a second victim at once. */
function earlyoom(pid: number, { limit }: Watch): () => void {
  const kib = Math.round(limit / 1024);
  const first = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  const enter = ['--target', first, '--pid', '--mount', 'earlyoom'];
  // SIGKILL at once, as for a hard threshold. There is no swap that could be free.
  const args = [...enter, '-M', `${kib},${kib}`, '-s', '100,100', '-r', '0'];
  const child = spawn('nsenter', args, { stdio: 'ignore' });
  return () => void child.kill('SIGKILL');
}

const PEERS: readonly Peer[] = [
  {
    name: 'nodewarden',
    mostRuns: Infinity,
    missing: () => null,
    isAgent: true,
    isHogAlone: false,
    watch: ofNode,
    beside: () => nothing,
  },
  {
    name: 'kill at once',
    mostRuns: 20,
    missing: () => null,
    isAgent: false,
    isHogAlone: false,
    watch: ofNode,
    beside: bareKill,
  },
  {
    name: 'looks each 10 s',
    mostRuns: 10,
    missing: () => null,
    isAgent: false,
    isHogAlone: false,
    watch: ofNode,
    beside: slowLoop,
  },
  {
    name: 'earlyoom',
    mostRuns: Infinity,
    missing: () => (has('earlyoom') ? null : 'the package earlyoom is not installed'),
    isAgent: false,
    isHogAlone: true,
    watch: ofMachine,
    beside: earlyoom,
  },
];

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '100' },
    rates: { type: 'string', default: '50,250,1024,max' },
    only: { type: 'string', default: '' },
  },
});
const runs = Number(values.runs);
const rates = values.rates.split(',');

type Row = { readonly peer: string; readonly rate: string; readonly breaches: readonly Breach[] };

async function measure(peer: Peer, rate: string): Promise<Row> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const breaches: Breach[] = [];
  const config = [
    `evictionHard: { memory.available: ${THRESHOLD_MIB}Mi }`,
    // Beside a peer it only looks on.
    `dryRun: ${!peer.isAgent}`,
    'guard: { sameOwnerKills: 0, window: 10m }',
  ];
  const pods = [{ name: 'hog' }, { name: 'bystander', priority: 1000, requestMiB: 64 }];
  try {
    await withScene({ pods, config, memoryMiB: NODE_MIB }, false, async (scene) => {
      await scene.play('bystander', 'memory 32');
      for (let run = 0; run < Math.min(runs, peer.mostRuns); run++) {
        let stop = nothing;
        const onReady = (pid: number, watch: Watch): void => {
          stop = peer.beside(pid, watch);
        };
        try {
          breaches.push(
            await breach({ scene, rate, directory, isAlone: peer.isHogAlone, watch: () => peer.watch(scene), onReady }),
          );
        } finally {
          stop();
        }
      }
    });
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
  return { peer: peer.name, rate, breaches };
}

const tenths = (value: number): string => (Number.isNaN(value) ? '-' : value.toFixed(value < 10 ? 1 : 0));

function say({ peer, rate, breaches }: Row): readonly string[] {
  const mine = breaches.filter(({ endedBy }) => endedBy === 'peer');
  const reactions = mine.map(({ reactionMs }) => reactionMs);
  const backs = mine.map(({ backMs }) => backMs);
  return [
    peer,
    rate,
    `${mine.length}/${breaches.length}`,
    ...[0.5, 0.9, 0.99, 1].map((q) => tenths(quantile(reactions, q))),
    ...[0.5, 0.99].map((q) => tenths(quantile(backs, q))),
  ];
}

const on = machine();
console.log(sayMachine(on));
const rows: Row[] = [];
for (const peer of PEERS.filter(({ name }) => name.includes(values.only))) {
  const missing = peer.missing();
  if (missing !== null) {
    console.log(`skipped ${peer.name}: ${missing}`);
    continue;
  }
  for (const rate of rates) {
    const row = await measure(peer, rate);
    rows.push(row);
    console.log(say(row).join('  '));
  }
}
const HEAD = ['who', 'MiB/s', 'in time', 'median ms', 'p90', 'p99', 'most', 'back ms', 'p99'];
console.log(`\n${table(HEAD, rows.map(say))}`);
writeResult('reaction', { on, thresholdMiB: THRESHOLD_MIB, nodeMiB: NODE_MIB, rows });
