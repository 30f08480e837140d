import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OrderAnswer } from '../../src/core/guard/decision.ts';
import type { FencingRecord, Phase } from '../../src/core/guard/record.ts';
import { readOrders, withAnswer } from '../../src/guard/orders.ts';
import { recordData } from '../../src/guard/records.ts';
import {
  aGuardApi,
  aRecord,
  type GuardApi,
  ID,
  LEASES,
  MAPS,
  W1,
  withAuthority,
  writeGuardKubeconfig,
} from '../guard/a-guard-api.ts';
import { eventually } from '../kube/eventually.ts';
import { aCommand } from './a-command.ts';

withAuthority();
const command = aCommand();
let api: GuardApi;
beforeEach(async () => {
  api = await aGuardApi();
  api.putNode(W1);
  api.putMap('guard-orders', {});
  api.put(`${LEASES}/nodewarden-guard`, { metadata: { name: 'nodewarden-guard' }, spec: { holderIdentity: 'g1-a' } });
});
afterEach(() => api.close());

const orders = () => api.objects.get(`${MAPS}/guard-orders`)?.data as { readonly [key: string]: string };
const order = () => readOrders({ data: orders() }, () => true)[0];
/** As the guard that leads would. */
function answer(said: OrderAnswer): void {
  api.putMap('guard-orders', withAnswer(orders(), order()?.id ?? '', { answer: said, wallMs: 5 }));
}
function rehearsal(rest: Partial<FencingRecord>, ...phases: readonly Phase[]): void {
  const steps = phases.map((phase, at) => ({ phase, wallMs: 1_764_000_000_000 + at * 1_000 }));
  const phase = phases.at(-1) ?? 'decided';
  api.putMap(
    `fencing-${ID}`,
    recordData(aRecord({ purpose: 'rehearse', phase, revision: phases.length, steps, ...rest })),
  );
}
async function rehearsed(
  said: OrderAnswer,
  rest: Partial<FencingRecord> = {},
  ...phases: readonly Phase[]
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const kubeconfig = writeGuardKubeconfig(api);
  const run = command.run(['guard', 'rehearse', 'w1', '--by', 'ann', '--kubeconfig', kubeconfig]);
  await eventually(() =>
    expect(order()).toMatchObject({ verb: 'rehearse', to: 'g1-a', by: 'ann', node: { name: 'w1' } }),
  );
  rehearsal({}, 'decided');
  answer(said);
  if (phases.length > 0) rehearsal(rest, ...phases);
  return run;
}
const YES = { isAccepted: true, fencing: ID } as const;

describe('guard rehearse', () => {
  it('follows the rehearsal and says what was proven', async () => {
    const phases = ['decided', 'off-sent', 'proving', 'proving', 'proven', 'on-sent', 'booting', 'closed'] as const;
    const { code, out, err } = await rehearsed(YES, { why: 'rehearsed' }, ...phases);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out.split('\n').map((line) => line.replace(/^\S+ \S+ UTC {2}/, ''))).toEqual([
      `g1-a: accepted, as fencing ${ID}`,
      'a last look before anything is done',
      'power off is being sent',
      'the devices are asked for proof',
      'off is proven',
      'power on is being sent',
      'it boots',
      'closed',
      'w1: proven: 1 and 2 switched this machine, and no other one',
      '',
    ]);
  });

  it.each<[string, Partial<FencingRecord>, Phase, string]>([
    ['another node was cut with it', { why: 'not-alone' }, 'closed', 'another node fell silent or booted with it'],
    [
      'its Node was deleted',
      { staysOff: 'node-deleted' },
      'left-off',
      'its Node was deleted, and its devices are left as they are: the machine may be off',
    ],
    ['its Node was deleted before', { why: 'node-deleted' }, 'aborted', 'its Node was deleted before it was cut'],
    ['its node was no longer drained', { why: 'not-drained' }, 'aborted', 'pods came to it before it was cut'],
    ['the machine does not come back', { why: 'not-ready' }, 'not-back', 'the machine is not back'],
  ])('that shows nothing, because %s, ends with status 1', async (_, rest, phase, said) => {
    const { code, err } = await rehearsed(YES, rest, 'decided', phase);
    expect(code).toBe(1);
    expect(err).toContain(`w1: not proven by 1 and 2: ${said}`);
  });

  it('that is refused says by which gate, with status 1', async () => {
    const { code, out, err } = await rehearsed({ isAccepted: false, gate: null, why: 'not-cordoned' });
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toBe('g1-a: refused: the node is not cordoned\n');
  });
});

describe('guard pause', () => {
  it('says what a pause does not stop', async () => {
    const kubeconfig = writeGuardKubeconfig(api);
    const run = command.run(['guard', 'pause', '--by', 'ann', '--because', 'a new switch', '--kubeconfig', kubeconfig]);
    await eventually(() => expect(order()).toMatchObject({ verb: 'pause', by: 'ann' }));
    answer({ isAccepted: true, fencing: null });
    const { code, out } = await run;
    expect(code).toBe(0);
    expect(out).toBe(
      'g1-a: accepted: nothing is fenced anew, and no further off is sent; an off that was already sent takes effect, and a ' +
        'machine that is proven off is drained and switched on: see nodewarden guard status\n',
    );
  });
});
