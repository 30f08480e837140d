import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { sayMachine, writeResult } from './result.ts';
import { type RealSoak, soakReally } from './soak-real.ts';

const { values } = parseArgs({
  options: {
    'real-minutes': { type: 'string', default: '2' },
    dist: { type: 'string', default: path.join(import.meta.dirname, '../dist') },
    seed: { type: 'string', default: String(process.pid) },
    result: { type: 'string', default: 'soak' },
  },
});
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
const seed = Number(values.seed);

/** Each part by itself: the others stay as they were measured. */
function keep(part: 'real' | 'virtual', measured: unknown): void {
  const file = path.join(import.meta.dirname, 'results', `${values.result}.json`);
  const before: unknown = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {};
  writeResult(values.result, { ...Object(before), [part]: measured });
}

const minutes = Number(values['real-minutes']);
if (minutes > 0) {
  console.log(`real, ${minutes} minutes, seed ${seed}`);
  const order = { minutes, seed, dist: values.dist, keep: (soFar: RealSoak) => keep('real', soFar) };
  const real = await soakReally(order, stop.signal);
  keep('real', real);
  console.log(sayMachine(real.on));
  console.log(JSON.stringify({ ...real, samples: real.samples.length }, null, 2));
  process.exitCode = real.problems.length === 0 ? 0 : 1;
}
