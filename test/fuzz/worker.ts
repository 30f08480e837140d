// Tries one target in a process of its own: what it allocates, how long it takes and how it dies is the target's.
import { createHash } from 'node:crypto';
import { mkdirSync, openSync, readFileSync, writeFileSync, writeSync, writevSync } from 'node:fs';
import { join } from 'node:path';
import { parseDocuments } from '../../src/document/document.ts';
import { bombsOf } from './bomb.ts';
import { type Chance, createChance } from './chance.ts';
import { MAX_INPUT_BYTES, mutate } from './mutate.ts';
import { Complaint } from './oracle.ts';
import { CURRENT, CURRENT_HEAD_BYTES, type Failure, type Order, type Tally, type WorkerLine } from './report.ts';
import { restructure, sayJson, sayYaml, type Tree, treeOf } from './restructure.ts';
import { type Attempt, type Example, example, type Target, unpackExamples } from './target.ts';
import { ALL_TARGETS } from './targets.ts';

const MAX_POOL = 300;
const MAX_FAILURES = 20;
const MAX_SHRINKS = 300;

const print = (line: WorkerLine): void => void writeSync(1, `${JSON.stringify(line)}\n`);
const rssMiB = (): number => process.resourceUsage().maxRSS / 1024;

/** The inputs of a target, one after the other without an end: its examples, then what chance makes of them. */
function createSource(target: Target, order: Order, chance: Chance) {
  const pool: Example[] = [...unpackExamples(readFileSync(order.examples))];
  const trees = target.syntax === 'text' ? [] : pool.map(({ body }) => parsed(body)).filter((tree) => tree !== null);
  const examples = [...pool];
  const any = (): Example => pool[chance.below(pool.length)] ?? example('');
  const anyTree = (): Tree => trees[chance.below(trees.length)] ?? treeOf(null);
  const bombs = order.bombs ? [...bombsOf(target.syntax)] : [];
  const made = (): Example => {
    if (target.generate !== undefined && chance.isOneIn(2)) return example(target.generate(chance));
    if (trees.length > 0 && chance.isOneIn(2)) return rebuilt(restructure(anyTree(), chance, anyTree), chance);
    const { head, body } = any();
    return { head, body: mutate(body, chance, () => any().body) };
  };
  return {
    next: (): Example => {
      const good = chance.isOneIn(3) ? examples.pop() : undefined;
      if (good !== undefined) return good;
      // Between the others, because many of them take as long as thousands of those.
      const bomb = chance.isOneIn(20) ? bombs.pop() : undefined;
      return bomb === undefined ? made() : { head: any().head, body: bomb.of(MAX_INPUT_BYTES) };
    },
    /** What was accepted leads further than what was refused. */
    keep: (accepted: Example): void => {
      if (accepted.body.length > MAX_INPUT_BYTES / 4) return;
      if (pool.length < MAX_POOL) pool.push(accepted);
      else pool[chance.below(pool.length)] = accepted;
    },
  };
}

function parsed(body: Buffer): Tree | null {
  const text = body.toString();
  try {
    return treeOf(JSON.parse(text));
  } catch {
    // YAML that is not JSON.
    const { documents, problems } = parseDocuments(text, 'example', 'kubelet');
    return problems.length === 0 && documents[0] !== undefined ? treeOf(documents[0].value) : null;
  }
}

function rebuilt(tree: Tree, chance: Chance): Example {
  const text = chance.isOneIn(2) ? sayJson(tree) : sayYaml(tree);
  const body = Buffer.from(text).subarray(0, MAX_INPUT_BYTES);
  return example(chance.isOneIn(8) ? mutate(body, chance, () => body) : body);
}

type Result = { readonly accepted: boolean; readonly failure: Omit<Failure, 'file'> | null; readonly ms: number };

/** Too slow only if it is so three times: on a busy machine, or while its code is not compiled yet, once says little. */
async function tryOne(attempt: Attempt, input: Buffer, slowMs: number): Promise<Result> {
  let result = await timed(attempt, input);
  for (let more = 2; more > 0 && result.failure === null && result.ms > slowMs; more--) {
    const next = await timed(attempt, input);
    if (next.ms < result.ms) result = next;
  }
  if (result.failure !== null || result.ms <= slowMs) return result;
  const detail = `${Math.round(result.ms)} ms for ${input.length} bytes`;
  return { ...result, failure: { kind: 'slow', what: `takes more than ${slowMs} ms`, detail } };
}

async function timed(attempt: Attempt, input: Buffer): Promise<Result> {
  const cpu = process.cpuUsage();
  const begin = performance.now();
  let accepted = false;
  let failure: Result['failure'] = null;
  try {
    const outcome = attempt(input);
    accepted = typeof outcome === 'boolean' ? outcome : await outcome;
  } catch (cause) {
    failure = failureOf(cause);
  }
  const ms = performance.now() - begin;
  // The wall clock counts what others do, the CPU time what threads of our own do meanwhile.
  const { user, system } = process.cpuUsage(cpu);
  return { accepted, failure, ms: Math.min(ms, (user + system) / 1000) };
}

function failureOf(cause: unknown): Omit<Failure, 'file'> {
  if (cause instanceof Complaint) return { kind: 'complains', what: cause.message, detail: cause.detail };
  if (!(cause instanceof Error)) return { kind: 'throws', what: String(cause), detail: '' };
  const [, frame = ''] = /\n\s+at (\S+)/.exec(cause.stack ?? '') ?? [];
  const message = cause.message.replaceAll(/"[^"]*"|'[^']*'|\d+/g, '#').slice(0, 120);
  return { kind: 'throws', what: `${cause.name} in ${frame}: ${message}`, detail: cause.stack ?? '' };
}

/** The same failure from less, by leaving parts out. */
async function shrunk(attempt: Attempt, of: Example, what: string): Promise<Buffer> {
  let { body } = of;
  let left = MAX_SHRINKS;
  for (let part = Math.ceil(body.length / 2); part >= 1 && left > 0; part = part === 1 ? 0 : Math.ceil(part / 2)) {
    for (let at = 0; at < body.length && left > 0; left--) {
      const less = Buffer.concat([body.subarray(0, at), body.subarray(at + part)]);
      const { failure } = await timed(attempt, Buffer.concat([Buffer.from(of.head), less]));
      if (failure?.what === what) body = less;
      else at += part;
    }
  }
  return Buffer.concat([Buffer.from(of.head), body]);
}

/** Leaves each input where it is found when it hangs or ends the process. */
function watched(attempt: Attempt, current: number): Attempt {
  const head = Buffer.alloc(CURRENT_HEAD_BYTES);
  let attempts = 0;
  return (input) => {
    head.writeUInt32LE(++attempts, 0);
    head.writeUInt32LE(input.length, 4);
    writevSync(current, [head, input], 0);
    return attempt(input);
  };
}

function createKeeper(order: Order) {
  const known = new Set<string>();
  return {
    isNew: ({ what }: Omit<Failure, 'file'>): boolean => !known.has(what) && known.size < MAX_FAILURES,
    keep: (failure: Omit<Failure, 'file'>, input: Buffer): void => {
      known.add(failure.what);
      const id = createHash('sha256').update(input).digest('hex').slice(0, 12);
      const file = join(order.saved, `${order.target}-${id}.input`);
      mkdirSync(order.saved, { recursive: true });
      writeFileSync(file, input);
      print({ failure: { ...failure, detail: failure.detail.slice(0, 2_000), file } });
    },
  };
}

async function work(order: Order): Promise<void> {
  const target = ALL_TARGETS.find(({ name }) => name === order.target);
  if (target === undefined) throw new Error(`no target ${order.target}`);
  const current = openSync(join(order.scratch, CURRENT), 'w');
  const attempt = watched(await target.open({ root: order.root, scratch: order.scratch }), current);
  const keeper = createKeeper(order);
  const { limits } = order;
  const tally = { executions: 0, accepted: 0, slowestMs: 0 };
  const tried = async (from: Example): Promise<Result> => {
    const input = from.head === '' ? from.body : Buffer.concat([Buffer.from(from.head), from.body]);
    tally.executions++;
    const result = await tryOne(attempt, input, limits.slowMs);
    if (result.accepted) tally.accepted++;
    tally.slowestMs = Math.max(tally.slowestMs, result.ms);
    if (result.failure !== null && keeper.isNew(result.failure)) {
      const isShort = result.failure.kind === 'throws' || result.failure.kind === 'complains';
      keeper.keep(result.failure, isShort ? await shrunk(attempt, from, result.failure.what) : input);
    }
    const large = rssMiB();
    if (large > limits.rssMiB) {
      const detail = `${Math.round(large)} MiB after ${tally.executions} inputs, the last of ${input.length} bytes`;
      keeper.keep({ kind: 'large', what: `more than ${limits.rssMiB} MiB`, detail }, input);
    }
    return result;
  };
  const tallied = (): Tally => ({ ...tally, peakRssMiB: rssMiB() });
  if (order.input !== null) await tried(example(readFileSync(order.input)));
  else await goThrough(target, order, tried);
  print({ tally: tallied() });
  process.exit(0);
}

async function goThrough(target: Target, order: Order, tried: (from: Example) => Promise<Result>): Promise<void> {
  const source = createSource(target, order, createChance(`${order.seed}/${order.target}`));
  const begin = performance.now();
  for (let done = 0; done < order.executions; done++) {
    // Once over the limit always over it: the next process starts anew.
    const isOver = done >= order.atLeast && performance.now() - begin > order.seconds * 1000;
    if (isOver || rssMiB() > order.limits.rssMiB) return;
    const input = source.next();
    const { accepted } = await tried(input);
    if (accepted) source.keep(input);
  }
}

void work(JSON.parse(process.argv[2] ?? '{}'));
