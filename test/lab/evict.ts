// Evictions on real cgroups of this machine: `--quick` breaches 20 times instead of 200, `--installed` uses the service
// that install.sh installed, `--only TEXT` runs the checks whose name contains it. The last line gives the figures; the
// exit status is 0 only if all holds.
import { parseArgs } from 'node:util';
import { checks } from './evictions.ts';
import { clock, withScene } from './scene.ts';
import { unitChecks } from './units.ts';

const { values } = parseArgs({
  options: { quick: { type: 'boolean' }, installed: { type: 'boolean' }, only: { type: 'string' } },
});
const isInstalled = values.installed === true;
const where = isInstalled ? 'the installed service' : 'the built agent';
const count = { passed: 0, failed: 0, skipped: 0 };

async function run(name: string, check: () => Promise<string>): Promise<void> {
  const startMs = clock.monoMs();
  const seconds = (): string => `${((clock.monoMs() - startMs) / 1000).toFixed(1)} s`;
  try {
    const figures = await check();
    count.passed += 1;
    console.log(`ok      ${name} (${seconds()})\n        ${figures}`);
  } catch (error) {
    count.failed += 1;
    console.log(`FAILED  ${name} (${seconds()})\n        ${error instanceof Error ? error.message : String(error)}`);
  }
}

if (process.getuid?.() !== 0) {
  console.log('skipped evictions on real cgroups: this is not root, and only root can make cgroups');
  count.skipped += 1;
} else {
  for (const { name, spec, body } of checks(values.quick === true ? 20 : 200)) {
    if (values.only !== undefined && !name.includes(values.only)) continue;
    await run(name, async () => {
      let figures = '';
      await withScene(spec, isInstalled, async (scene) => {
        figures = await body(scene);
      });
      return figures;
    });
  }
  for (const { name, body } of unitChecks) {
    if (values.only !== undefined && !name.includes(values.only)) continue;
    if (isInstalled) await run(name, body);
    else {
      console.log(`skipped ${name}: needs systemd and the installed service; runs in the guest`);
      count.skipped += 1;
    }
  }
}
console.log(`evict, ${where}: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exitCode = count.failed === 0 ? 0 : 1;
