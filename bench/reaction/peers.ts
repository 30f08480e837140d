import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { has } from '../result.ts';
import { crossingOf, nodeDirectory, readNumber, usageFile, type Watch } from './breach.ts';
import type { Grounds } from './grounds.ts';
import { BARE, EARLYOOM, FRESH, PRODUCT, SLOW } from './series.ts';

/** The node in which the hogs grow. */
export type NodeSize = { readonly nodeMiB: number; readonly thresholdMiB: number };
export type Peer = {
  readonly name: string;
  /** Null: it can run here. */
  readonly missing: () => string | null;
  /** Only this agent: in a node of its own, where it acts. */
  readonly isAgent: boolean;
  /** The hog's cgroup appears with it; only at these rates. */
  readonly fresh?: { readonly rates: readonly string[] };
  /** Wants a node that nobody used before. */
  readonly isNodeFresh: boolean;
  /** By what it and the hog see the crossing. */
  readonly watch: (grounds: Grounds, size: NodeSize) => Watch;
  readonly isHogAlone: boolean;
  /** Started beside each hog; the function ends it. */
  readonly beside: (pid: number, watch: Watch, turn: Turn) => () => void;
};
export type Turn = {
  readonly grounds: Grounds;
  /** Spread evenly over 0 to 1 from run to run: what has a pace crosses it at every moment. */
  readonly phase: number;
};

const MIB = 1024 * 1024;
const SLOW_LOOP = path.join(import.meta.dirname, 'slow-loop.pl');
const SLOW_SECONDS = 10;
const OOMD_DROP_IN = '/run/systemd/oomd.conf.d';

const ofNode = (grounds: Grounds, { nodeMiB, thresholdMiB }: NodeSize): Watch =>
  crossingOf(grounds, nodeMiB * MIB, thresholdMiB * MIB);
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

function slowLoop(pid: number, { file, limit }: Watch, { phase }: Turn): () => void {
  const args = [SLOW_LOOP, String(phase * SLOW_SECONDS), String(SLOW_SECONDS), String(pid), file, String(limit)];
  const loop = spawn('/usr/bin/perl', args, { stdio: 'ignore' });
  return () => void loop.kill('SIGKILL');
}

/** MemAvailable of the whole machine, as far below now as the hog still has to go in the node. */
function ofMachine(grounds: Grounds, size: NodeSize): Watch {
  const available = Number(/^MemAvailable:\s+(\d+)/m.exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[1]) * 1024;
  const { limit } = ofNode(grounds, size);
  return { file: '/proc/meminfo', limit: available - (limit - readNumber(usageFile(grounds))) };
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

/**
 * It knows no threshold of memory: it kills in a cgroup that stalled too long on memory. With nothing but the kill
 * switched on a node without swap stalls for the first time when it is full. MemoryHigh= makes the kernel stall whoever
 * goes beyond the crossing: `pressurePercent` of the time, for the shortest duration that it accepts.
 */
const oomd =
  (pressurePercent: number | null) =>
  (_pid: number, { limit }: Watch, { grounds }: Turn): (() => void) => {
    const unit = path.basename(nodeDirectory(grounds));
    const tuned = [`MemoryHigh=${limit}`, `ManagedOOMMemoryPressureLimit=${pressurePercent}%`];
    const properties = ['ManagedOOMMemoryPressure=kill', ...(pressurePercent === null ? [] : tuned)];
    fs.rmSync(OOMD_DROP_IN, { recursive: true, force: true });
    if (pressurePercent !== null) {
      fs.mkdirSync(OOMD_DROP_IN);
      fs.writeFileSync(path.join(OOMD_DROP_IN, 'bench.conf'), '[OOM]\nDefaultMemoryPressureDurationSec=1s\n');
    }
    execFileSync('systemctl', ['restart', 'systemd-oomd']);
    execFileSync('systemctl', ['set-property', '--runtime', unit, ...properties]);
    return () => {
      systemctl('stop', 'systemd-oomd');
      fs.rmSync(OOMD_DROP_IN, { recursive: true, force: true });
    };
  };
/** It warns of what is meant. */
function systemctl(...args: readonly string[]): void {
  execFileSync('systemctl', args, { stdio: 'ignore' });
}
const oomdMissing = (): string | null => {
  if (!fs.existsSync('/run/systemd/system')) return 'systemd is not running: it is measured in the guest';
  return fs.existsSync('/lib/systemd/systemd-oomd') ? null : 'the package systemd-oomd is not installed';
};

const other = { missing: () => null, isAgent: false, isNodeFresh: false, watch: ofNode, isHogAlone: false };

export const PEERS: readonly Peer[] = [
  { ...other, name: PRODUCT, isAgent: true, beside: () => nothing },
  { ...other, name: FRESH, isAgent: true, fresh: { rates: ['1024', 'max'] }, beside: () => nothing },
  {
    ...other,
    name: EARLYOOM,
    missing: () => (has('earlyoom') ? null : 'the package earlyoom is not installed'),
    watch: ofMachine,
    isHogAlone: true,
    beside: earlyoom,
  },
  { ...other, name: BARE, beside: bareKill },
  { ...other, name: SLOW, beside: slowLoop },
  { ...other, name: 'systemd-oomd', missing: oomdMissing, isNodeFresh: true, beside: oomd(null) },
  { ...other, name: 'systemd-oomd + MemoryHigh', missing: oomdMissing, isNodeFresh: true, beside: oomd(10) },
];
