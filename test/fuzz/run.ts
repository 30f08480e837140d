import { spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { bombsOf } from './bomb.ts';
import { createChance } from './chance.ts';
import {
  CURRENT,
  CURRENT_HEAD_BYTES,
  type Failure,
  LIMITS,
  type Limits,
  type Order,
  type Tally,
  type TargetReport,
  type WorkerLine,
} from './report.ts';
import { type Example, packExamples, type Target } from './target.ts';
import { ALL_TARGETS } from './targets.ts';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const POLL_MS = 100;
/** Bounds what a target that dies on everything may start. */
const MAX_PROCESSES = 30;
const KIB = 1024;
/**
 * Of a process that tries one input after the other: by default V8 collects so late that the garbage of hundreds of inputs
 * is what would be measured. Who needs more than this at once dies of it, which is a failure. One input alone runs with
 * the default flags.
 */
const SERIES_FLAGS = ['--max-old-space-size=96'];
/** Of what is large, for who waits for it (Target.isOffline): below the heap that Node takes by default. */
const PATIENCE: Limits = { slowMs: 300_000, rssMiB: 2_048, hangMs: 300_000 };

export type FuzzOptions = {
  readonly seed: string;
  /** Of each target. */
  readonly seconds: number;
  /** So many, whatever the time: on a busy machine it is over before the code is compiled. */
  readonly atLeast?: number;
  readonly executions?: number;
  /** What grows out of little: of 64 KiB among the others, and of these sizes each in a process of its own for a third of the time. */
  readonly bombs?: { readonly largeBytes: readonly number[] } | null;
  readonly input?: string | null;
  readonly limits?: Limits;
  /** Where failing inputs are kept. */
  readonly saved: string;
};
export type Fuzzer = {
  readonly run: (target: string, options: FuzzOptions) => Promise<TargetReport>;
  readonly close: () => void;
};

/** Bundles the worker as the agent is bundled, so that the memory measured is not that of a compiler. */
export async function openFuzzer(): Promise<Fuzzer> {
  const scratch = mkdtempSync(join(tmpdir(), 'nodewarden-fuzz-'));
  const bundle = join(scratch, 'worker.cjs');
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['test/fuzz/worker.ts'],
    outfile: bundle,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    logLevel: 'warning',
    external: ['x11', 'usocket', 'systeminformation'],
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
  });
  return {
    run: (target, options) => runTarget(bundle, scratch, target, options),
    close: () => rmSync(scratch, { recursive: true, force: true }),
  };
}

/** One process after the other until the time is over: each ends at a hang, a death, or beyond its memory. */
async function runTarget(bundle: string, scratch: string, name: string, options: FuzzOptions): Promise<TargetReport> {
  const begin = performance.now();
  const since = (): number => (performance.now() - begin) / 1000;
  const bombs = options.bombs === undefined ? { largeBytes: [KIB * KIB, 16 * KIB * KIB] } : options.bombs;
  const largeBytes = bombs?.largeBytes ?? [];
  const seconds = options.input == null && largeBytes.length > 0 ? (options.seconds * 2) / 3 : options.seconds;
  let total: Tally = { executions: 0, accepted: 0, slowestMs: 0, peakRssMiB: 0 };
  const failures = new Map<string, Failure>();
  let processes = 0;
  const target = ALL_TARGETS.find((one) => one.name === name);
  if (target === undefined) throw new Error(`no target ${name}`);
  const examples = target.examples({ root: ROOT, scratch: '' });
  const packed = join(scratch, `${name}.examples`);
  writeFileSync(packed, packExamples(examples));
  const isOffline = target.isOffline ?? false;
  const next = async (given: Pick<Order, 'seconds' | 'executions' | 'input'>, of: string): Promise<void> => {
    const isPatient = isOffline && of !== '';
    const order: Order = {
      target: name,
      seed: processes === 0 ? options.seed : `${options.seed}.${processes}`,
      root: ROOT,
      scratch: join(scratch, `${name}-${processes}`),
      examples: packed,
      atLeast: options.atLeast ?? 0,
      saved: resolve(options.saved),
      bombs: processes === 0 && bombs !== null,
      limits: isPatient ? PATIENCE : (options.limits ?? LIMITS),
      ...given,
    };
    processes += 1;
    mkdirSync(order.scratch, { recursive: true });
    const ended = await runWorker(bundle, order);
    rmSync(order.scratch, { recursive: true, force: true });
    total = sum(total, ended.tally);
    for (const failure of ended.failures) {
      if (!failures.has(failure.what)) failures.set(failure.what, { ...failure, detail: `${of}${failure.detail}` });
    }
  };
  if (options.input != null) await next({ seconds, executions: 1, input: options.input }, '');
  else {
    const limit = options.executions ?? Number.MAX_SAFE_INTEGER;
    do {
      await next({ seconds: seconds - since(), executions: limit - total.executions, input: null }, '');
    } while (processes < MAX_PROCESSES && seconds - since() > 0.2 && total.executions < limit);
    for (const large of largeOnes(target, examples, options.seed, largeBytes)) {
      if (since() > options.seconds) break;
      const file = join(scratch, `${name}-large.input`);
      writeFileSync(file, large.make());
      await next({ seconds: 60, executions: 1, input: file }, `${large.name}: `);
    }
  }
  return { ...total, target: name, seconds: since(), failures: [...failures.values()] };
}

type Large = { readonly name: string; readonly make: () => Buffer };

/** What grows out of little, each of each size, in an order of chance. */
function largeOnes(
  target: Target,
  examples: readonly Example[],
  seed: string,
  sizes: readonly number[],
): readonly Large[] {
  const chance = createChance(`${seed}/${target.name}/large`);
  const head = (): Buffer => Buffer.from(examples[chance.below(examples.length)]?.head ?? '');
  return sizes
    .filter((bytes) => bytes <= (target.largest ?? Number.POSITIVE_INFINITY))
    .flatMap((bytes) =>
      bombsOf(target.syntax).map(({ name, of }) => ({
        order: chance.below(2 ** 30),
        name: `${name}, ${bytes / KIB} KiB`,
        make: () => Buffer.concat([head(), of(bytes)]),
      })),
    )
    .sort((a, b) => a.order - b.order);
}

const sum = (a: Tally, b: Tally): Tally => ({
  executions: a.executions + b.executions,
  accepted: a.accepted + b.accepted,
  slowestMs: Math.max(a.slowestMs, b.slowestMs),
  peakRssMiB: Math.max(a.peakRssMiB, b.peakRssMiB),
});

type Ended = { readonly tally: Tally; readonly failures: readonly Failure[] };

function runWorker(bundle: string, order: Order): Promise<Ended> {
  const { hangMs } = order.limits;
  const failures: Failure[] = [];
  let tally: Tally | null = null;
  let said = '';
  let isHanging = false;
  const flags = order.input === null ? SERIES_FLAGS : [];
  const child = spawn(process.execPath, [...flags, bundle, JSON.stringify(order)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line: WorkerLine = JSON.parse(text);
    if ('failure' in line) failures.push(line.failure);
    else tally = line.tally;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = `${said}${text}`.slice(-2_000);
  });
  const current = join(order.scratch, CURRENT);
  let last = { count: 0, atMs: performance.now(), cpuMs: 0 };
  const watch = setInterval(() => {
    const { count } = readCurrent(current);
    const [atMs, cpuMs] = [performance.now(), cpuMsOf(child.pid)];
    if (count !== last.count || count === 0) last = { count, atMs, cpuMs };
    else if (cpuMs - last.cpuMs > hangMs || atMs - last.atMs > 10 * hangMs) {
      isHanging = true;
      child.kill('SIGKILL');
    }
  }, POLL_MS);
  return new Promise((settle) => {
    child.on('close', (code, signal) => {
      clearInterval(watch);
      const { count, input } = readCurrent(current);
      if (tally === null) {
        const kind = isHanging ? 'hangs' : 'dies';
        const what = isHanging ? `takes more than ${hangMs} ms` : `ends the process (${signal ?? code})`;
        failures.push({ kind, what: `${kind}: ${what}`, detail: said, file: save(order, input) });
      }
      settle({
        tally: tally ?? { executions: count, accepted: 0, slowestMs: isHanging ? hangMs : 0, peakRssMiB: 0 },
        failures,
      });
    });
  });
}

/** Of all its threads; 0 when it is gone. */
function cpuMsOf(pid: number | undefined): number {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return 0;
  const fields = readFileSync(path, 'latin1').split(') ')[1]?.split(' ') ?? [];
  const MS_PER_TICK = 10;
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}

function save({ saved, target }: Order, input: Buffer): string {
  mkdirSync(saved, { recursive: true });
  for (let i = 1; ; i++) {
    const file = join(saved, `${target}-ended-${i}.input`);
    if (existsSync(file)) continue;
    writeFileSync(file, input);
    return file;
  }
}

/** What the worker tries right now, and which one that is. */
function readCurrent(path: string): { readonly count: number; readonly input: Buffer } {
  const head = Buffer.alloc(CURRENT_HEAD_BYTES);
  if (!existsSync(path)) return { count: 0, input: head.subarray(0, 0) };
  const fd = openSync(path, 'r');
  try {
    readSync(fd, head, 0, head.length, 0);
    const input = Buffer.alloc(head.readUInt32LE(4));
    readSync(fd, input, 0, input.length, CURRENT_HEAD_BYTES);
    return { count: head.readUInt32LE(0), input };
  } finally {
    closeSync(fd);
  }
}
