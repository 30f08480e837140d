// Plays the scenes that were asked for, by default all of them, one after the other.
import { parseArgs } from 'node:util';
import { minorVersion } from '../kube/cluster.ts';
import { type LabScene, type Played, play } from './lab.ts';
import { isEmulated } from './out-of-service.ts';
import { ADMISSION } from './scenes/admission.ts';
import { ANNOUNCED } from './scenes/announced.ts';
import { API_AWAY } from './scenes/api-away.ts';
import { DEPLOYMENT } from './scenes/deployment.ts';
import { DRY_RUN } from './scenes/dry-run.ts';
import { ENDS } from './scenes/ends.ts';
import { GUEST } from './scenes/guest.ts';
import { GUEST_NODE } from './scenes/guest-node.ts';
import { GUEST_SHUTDOWN } from './scenes/guest-shutdown.ts';
import { KILLS } from './scenes/kills.ts';
import { LIES } from './scenes/lies.ts';
import { ONE_MACHINE } from './scenes/one-machine.ts';
import { ORDERS } from './scenes/orders.ts';
import { SECRETS } from './scenes/secrets.ts';
import { STORM } from './scenes/storm.ts';
import { VOLUMES } from './scenes/volumes.ts';

/** Roughly the longest first, so that several clusters are done at the same time. */
const SCENES: readonly LabScene[] = [
  ...DRY_RUN,
  ...KILLS,
  ...API_AWAY,
  ...VOLUMES,
  ...GUEST_NODE,
  ...GUEST_SHUTDOWN,
  ...ORDERS,
  ...STORM,
  ...ENDS,
  ...DEPLOYMENT,
  ...GUEST,
  ...LIES,
  ...ANNOUNCED,
  ...SECRETS,
  ...ADMISSION,
  ...ONE_MACHINE,
];

/** Points of which nothing is shown. */
const notShown = (): readonly string[] =>
  isEmulated()
    ? [`podgc-real, attachdetach-real, csi-node-mount (of Kubernetes 1.26 and later; here it is 1.${minorVersion()})`]
    : ['csi-node-mount (the nodes with CSI volumes are fake)'];

const { values, positionals } = parseArgs({ options: { list: { type: 'boolean' } }, allowPositionals: true });
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const wanted = SCENES.filter(({ name }) => positionals.length === 0 || positionals.some((one) => name.includes(one)));

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

if (values.list === true) for (const { point, name } of wanted) say(`${point}  ${name}`);
else await main();

async function main(): Promise<void> {
  const played: Played[] = [];
  for (const scene of wanted) {
    const beganMs = Date.now();
    say(`--- ${scene.name}`);
    played.push(await play(scene, say));
    say(`    ${scene.name}: ${((Date.now() - beganMs) / 1_000).toFixed(0)} s`);
  }
  const all = <K extends 'failed' | 'figures' | 'skipped'>(of: K) => played.flatMap((one) => one[of]);
  const checks = played.reduce((sum, one) => sum + one.checks, 0);
  const skipped = [...new Set([...notShown(), ...all('skipped')])];
  say(`skipped: ${skipped.length === 0 ? 'nothing' : skipped.join('; ')}`);
  say(`figures: ${all('figures').join(', ')}`);
  for (const one of all('failed')) say(`failed: ${one}`);
  say(`guard: ${played.length} scenes, ${checks - all('failed').length} of ${checks} checks hold`);
  process.exitCode = all('failed').length > 0 || played.length === 0 ? 1 : 0;
}
