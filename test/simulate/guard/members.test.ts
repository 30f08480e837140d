import { describe, expect, it } from 'vitest';
import { type Json, MEMBER, run } from './a-world.ts';

const TWO: readonly Json[] = [{ name: 'w1', pods: [MEMBER] }, { name: 'w2' }];
/** Three machines that stop in one instant: the guard holds. */
const BURST: readonly Json[] = [{ names: 'w[1-9]', pods: [{ ...MEMBER, name: 'db-{node}' }] }];
const without = (events: readonly Json[], rest: Json = {}) =>
  run({ nodes: TWO, config: { nodes: { matchLabels: { fence: 'no' } } }, events, ...rest }).result.withoutMember;

describe('how long a member does not run', () => {
  it('is counted to the end where nobody takes its place', () => {
    const [db] = without([{ at: '5m', node: 'w1', freeze: true }], { world: { duration: '15m' } });
    expect(db).toMatchObject({ pod: 'default/db', isBack: false });
    // From the last renewal of the lease, up to 10 s before.
    expect(db?.seconds).toBeGreaterThanOrEqual(600);
    expect(db?.seconds).toBeLessThanOrEqual(610);
  });

  it('ends when its own machine goes on', () => {
    const [db] = without([
      { at: '5m', node: 'w1', freeze: true },
      { at: '7m', node: 'w1', freeze: false },
    ]);
    expect(db).toMatchObject({ isBack: true });
    expect(db?.seconds).toBeGreaterThanOrEqual(120);
    expect(db?.seconds).toBeLessThanOrEqual(130);
  });

  it('is the sum of all its gaps', () => {
    const [db, ...others] = without([
      { at: '5m', node: 'w1', freeze: true },
      { at: '7m', node: 'w1', freeze: false },
      { at: '9m', node: 'w1', freeze: true },
      { at: '10m', node: 'w1', freeze: false },
    ]);
    expect(others).toEqual([]);
    expect(db?.seconds).toBeGreaterThanOrEqual(180);
    expect(db?.seconds).toBeLessThanOrEqual(200);
  });

  it('is nothing while it runs on a machine that nobody hears of', () => {
    expect(without([{ at: '5m', cut: 'w1', from: 'api' }], { world: { duration: '15m' } })).toEqual([]);
    expect(without([{ at: '5m', node: 'w1', kubelet: 'stop' }], { world: { duration: '15m' } })).toEqual([]);
  });

  it('is not told of a pod that no StatefulSet replaces', () => {
    const nodes = [{ name: 'w1', pods: [{ name: 'web' }] }, { name: 'w2' }];
    expect(without([{ at: '5m', node: 'w1', freeze: true }], { nodes })).toEqual([]);
  });

  it('is what a hold of its node costs meanwhile', () => {
    const events = [{ at: '5m', node: 'w[1-3]', freeze: true }];
    const { held } = run({ nodes: BURST, events, world: { duration: '15m' } }).result;
    const of = (scope: string) => held.find((one) => one.scope === scope && one.gate === 'storm');
    for (const scope of ['w1', 'w2', 'w3']) {
      const hold = of(scope);
      expect(hold?.until).toBeNull();
      expect(hold?.memberSeconds).toBe(Math.round((900_000 - (hold?.from ?? 0)) / 1_000));
    }
  });

  it('is no cost of a hold of a node whose members run', () => {
    const events = [{ at: '5m', cut: 'w[1-3]', from: 'all' }];
    const { held } = run({ nodes: BURST, events, world: { duration: '15m' } }).result;
    expect(held.filter(({ memberSeconds }) => memberSeconds > 0)).toEqual([]);
    expect(held.length).toBeGreaterThan(0);
  });
});

describe('what the record of a fencing says of its member', () => {
  const nodes = [{ names: 'w[1-5]', pods: [{ ...MEMBER, name: 'db-{node}', volumes: 1 }] }];
  const lastRecord = (rest: Json) => {
    const { facts, result } = run({ nodes, events: [{ at: '5m', node: 'w2', freeze: true }], ...rest });
    const record = facts.flatMap((fact) => (fact.kind === 'phase' ? [fact.record] : [])).at(-1);
    const [pod] = record?.freed?.pods ?? [];
    const awayMs = (pod?.readyWallMs ?? Number.NaN) + (record?.silentMs ?? 0) - (record?.steps[0]?.wallMs ?? 0);
    return { record, awayMs, trueMs: 1_000 * (result.withoutMember[0]?.seconds ?? 0) };
  };
  it.each<[string, Json, string]>([
    ['a machine that comes back', {}, 'closed'],
    ['a machine that stays off', { config: { recovery: { powerOn: false } } }, 'left-off'],
    ['a member that waits for its image', { world: { successorAfter: '50s' } }, 'closed'],
    [
      'one on a machine that stays off, which it waits for too',
      { config: { recovery: { powerOn: false } }, world: { successorAfter: '2m' } },
      'left-off',
    ],
  ])('is for how long it was away, as long as a look takes: %s', (_, rest, phase) => {
    const { record, awayMs, trueMs } = lastRecord(rest);
    expect(record).toMatchObject({ phase, freed: { pods: [{ name: 'db-w2', isMember: true }], volumes: [{}] } });
    expect(record?.freed?.pods[0]?.goneWallMs).toBeGreaterThan(0);
    expect(record?.freed?.volumes[0]?.goneWallMs).toBeGreaterThan(0);
    expect(trueMs).toBeGreaterThan(120_000);
    expect(awayMs).toBeGreaterThanOrEqual(trueMs - 10_000);
    expect(awayMs).toBeLessThanOrEqual(trueMs + 20_000);
  });
  it('is at most for so long, if nobody led while it came back', () => {
    const gone = ['g1', 'g2'].map((name) => ({ at: '7m25s', guard: { name, kill: true } }));
    const back = ['g1', 'g2'].map((name) => ({ at: '16m', guard: { name, restart: true } }));
    const { record, awayMs, trueMs } = lastRecord({
      events: [{ at: '5m', node: 'w2', freeze: true }, ...gone, ...back],
    });
    expect(awayMs).toBeGreaterThan(trueMs + 60_000);
    expect(record?.freed).toMatchObject({
      pods: [{ isGoneBy: true, isReadyBy: true }],
      volumes: [{ isGoneBy: true }],
    });
  });
});
