// Many nodes fall silent at once: nobody is fenced, neither then nor after the heal.
import { sleep } from '../../../../src/host/clock.ts';
import { clock, until } from '../../scene.ts';
import type { Lab, LabScene } from '../lab.ts';
import { someMachines } from './one-machine.ts';

const NODES = 300;
const COOL_DOWN_MS = 120_000;
const SILENT_MS = 180_000;
/** guard.md 17.3 wants 30 minutes. */
const STORM_MS = Number(process.env['LAB_STORM_MINUTES'] ?? 3) * 60_000;

const storm = (nodes: number, parts: readonly number[]): LabScene => ({
  name: `storms of ${nodes} nodes`,
  point: 3,
  body: (lab) => storms(lab, nodes, parts),
});

/** One storm after the other, each of so many nodes; then one node dies in the cool-down of the last. */
async function storms(lab: Lab, nodes: number, parts: readonly number[]): Promise<void> {
  // With their ports: without a second witness, it would be the missing witness that holds each of them.
  const fleet = await lab.fleet(someMachines(nodes));
  const storms = { maxUnhealthy: '30%', domainShare: '55%', burst: { nodes: 3, within: '30s' }, coolDown: '2m' };
  const [guard] = await lab.led({ name: 'g1', config: { fenceWhen: 'always', storm: storms, settle: '30s' } });
  if (guard === undefined) throw new Error('no guard');
  const offs = () => fleet.machines.filter((machine) => machine.changes().some(({ to }) => to === 'off'));
  const tainted = () => fleet.marks.filter(({ isTainted }) => isTainted);
  const held = (gate: string): number =>
    guard.log().filter(({ event, msg }) => event === 'hold' && String(msg).includes(gate)).length;
  const isLarge = (count: number): boolean => count > 0.3 * nodes;
  /** From when the guard says why it holds: on a busy machine that may take some time. */
  const silent = async (count: number): Promise<void> => {
    const some = fleet.machines.slice(0, count);
    const isStorm = isLarge(count);
    const isHeld = (): boolean => (isStorm ? guard.log().some(({ event }) => event === 'storm') : held('burst') >= 1);
    for (const machine of some) machine.kubelet('silent');
    await until('the guard says why it holds', () => isHeld() || null, 400_000);
    const silentMs = isStorm ? STORM_MS : SILENT_MS;
    await sleep(clock, silentMs);
    lab.check(
      `${some.length} of ${nodes} silent for ${silentMs / 60_000} min: nobody is fenced`,
      offs().length === 0 && tainted().length === 0,
      `${offs().length} off`,
    );
    for (const machine of some) machine.kubelet('up');
  };

  for (const count of parts) await silent(count);
  const healedMs = Date.now();

  // One that is not seen alive in between is still in the storm.
  const isOver = (): boolean => guard.log().some(({ msg }) => String(msg).startsWith('storm over'));
  await until('the storm is over', () => isOver() || null, 300_000);
  // The cool-down holds what the storm held: all nodes, or those that fell silent together.
  const dying = fleet.machine(isLarge(parts.at(-1) ?? 0) ? `m${nodes - 1}` : 'm0');
  dying.kubelet('silent');
  const off = await until(
    'the one that died in the cool-down is fenced',
    () => dying.changes().find(({ to }) => to === 'off') ?? null,
    600_000,
  );
  lab.figure(
    'from the heal to the power-off of one that died right after it',
    `${((off.atMs - healedMs) / 1_000).toFixed(0)} s`,
  );
  lab.check(`not within the cool-down of ${COOL_DOWN_MS / 60_000} min`, off.atMs - healedMs >= COOL_DOWN_MS);
  lab.check(
    'nobody else was fenced',
    offs().length === 1,
    offs()
      .map(({ name }) => name)
      .join(' '),
  );
  lab.figure('requests of the guard', guard.proxy.requests());
}

export const STORM: readonly LabScene[] = [storm(NODES, [5, (NODES * 3) / 5]), storm(100, [5])];
