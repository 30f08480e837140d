import { describe, expect, it } from 'vitest';
import { aGuardConfig } from './a-guard-config.ts';
import { five } from './a-machine.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
/** Without power for a while, too short to be dead, and just back: its kubelet and its device were asked before. */
function justBack() {
  const world = aWorld(five(), aGuardConfig()).run(5 * MINUTE);
  const w1 = world.machine('w1');
  Object.assign(w1, { isOn: false, isHeard: false });
  world.run(100_000);
  Object.assign(w1, { isOn: true, isHeard: true, boots: 2 });
  while (world.state().nodes.get('uid-w1')?.isSuspect) world.run(500);
  return { world, w1 };
}
type World = ReturnType<typeof justBack>['world'];

const order = (world: World) => ({
  ...{ id: 'o1', to: world.writer(), by: 'ana', because: 'a test', verb: 'fence' as const },
  node: { name: 'w1', uid: 'uid-w1' },
});
const answers = ({ told }: World) =>
  told.flatMap(({ decision }) => (decision.kind === 'answer' ? [decision.answer] : []));

describe('an order for a node that has just come back', () => {
  it('is not accepted by the silence of its kubelet from before', () => {
    const { world, w1 } = justBack();
    w1.witness = 'answers';
    world.orders = [order(world)];
    world.run(30_000);
    expect(answers(world)).toMatchObject([{ isAccepted: false, why: 'kubelet-answers' }]);
    expect(w1.offs).toBe(0);
  });
  it('nor by what its device said before: it is asked once more', () => {
    const { world } = justBack();
    world.orders = [order(world)];
    while (answers(world).length === 0) world.run(500);
    expect(answers(world)).toMatchObject([{ isAccepted: true }]);
    const { record } = [...world.records.values()].at(-1) ?? {};
    expect(record?.why).toBeNull();
  });
});
