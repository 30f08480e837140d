// npm run fuzz [-- --minutes 10] [--seed N] [--only TARGET] [--input FILE]
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { HEADING, sayReport } from './report.ts';
import { openFuzzer } from './run.ts';
import { ALL_TARGETS, TARGETS } from './targets.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    only: { type: 'string' },
    input: { type: 'string' },
    saved: { type: 'string', default: join(tmpdir(), 'nodewarden-fuzz-failures') },
  },
});
const seed = values.seed ?? String(Date.now() % 1_000_000);
const named = ALL_TARGETS.filter(({ name }) => name === values.only);
const targets = values.only === undefined ? TARGETS : named;
if (targets.length === 0) {
  process.stderr.write(`no target ${values.only}; there are ${TARGETS.map(({ name }) => name).join(', ')}\n`);
  process.exit(2);
}
const seconds = (Number(values.minutes) * 60) / targets.length;
process.stdout.write(`seed ${seed}, ${targets.length} targets, ${Math.round(seconds)} s each\n${HEADING}\n`);
const fuzzer = await openFuzzer();
let failed = 0;
for (const { name } of targets) {
  const report = await fuzzer.run(name, { seed, seconds, saved: values.saved, input: values.input ?? null });
  process.stdout.write(`${sayReport(report)}\n`);
  for (const { kind, what, detail, file } of report.failures) {
    process.stdout.write(
      `  ${kind}: ${what}\n    ${detail.replaceAll('\n', '\n    ')}\n    again: npm run fuzz -- --only ${name} --input ${file}\n`,
    );
  }
  failed += report.failures.length;
}
fuzzer.close();
process.stdout.write(failed === 0 ? 'nothing failed\n' : `${failed} failed\n`);
process.exitCode = failed === 0 ? 0 : 1;
