// `npm run conformance [-- DIR]`: holds this tree against recorded answers of the kubelet. Status 1 if any differs.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runConformance, sayCounts } from './conformance.ts';

const [given] = process.argv.slice(2);
const directory = given ?? fileURLToPath(new URL('.', import.meta.url));

if (!existsSync(directory)) {
  process.stderr.write(`${directory} does not exist: name a folder of *.jsonl or *.jsonl.gz\n`);
  process.exit(1);
}
const counts = await runConformance(directory, (line) => process.stdout.write(`FAILED ${line}\n`));
process.stdout.write(`${directory}\n${sayCounts(counts)}\n`);
const isEmpty = counts.passed + counts.failed + counts.excepted === 0;
process.exitCode = counts.failed > 0 || isEmpty ? 1 : 0;
