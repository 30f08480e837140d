import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createGuardWrites } from '../../src/guard/api-writes.ts';
import { createLeader, type Leader } from '../../src/guard/leader.ts';
import { createClock } from '../../src/host/clock.ts';
import { eventually } from '../kube/eventually.ts';
import { heardParts, hurried } from '../standalone/needs.ts';
import { aGuardApi, type GuardApi, LEASES, NAMESPACE, withAuthority } from './a-guard-api.ts';

withAuthority();
const LEASE = `${LEASES}/nodewarden-guard`;
/** A lease is watched for 15 s before it is taken. */
const fast = hurried(createClock(), 10);
let api: GuardApi;
let leaders: Leader[] = [];
beforeEach(async () => {
  api = await aGuardApi(fast);
  leaders = [];
});
afterEach(async () => {
  for (const leader of leaders) await leader.close();
  await api.close();
});

function aLeader(writer: string, { hash = 'same', recordsEpoch = 0, isCut = (): boolean => false } = {}) {
  const get: typeof api.connection.get = async (path, ms) =>
    isCut() ? { kind: 'none', isTimeout: true, detail: 'timed out' } : api.connection.get(path, ms);
  const { findings, present } = heardParts();
  const leader = createLeader({
    ...{ connection: { get }, clock: fast, findings, namespace: NAMESPACE, writer },
    writes: createGuardWrites({ send: api.connection.send, namespace: NAMESPACE }),
    ...{ isDryRun: () => false, configHash: () => hash, recordsEpoch: () => recordsEpoch, changed: () => undefined },
  });
  leaders.push(leader);
  return { leader, present };
}
const holder = () => (api.objects.get(LEASE)?.spec as { holderIdentity?: string } | undefined)?.holderIdentity ?? null;
const leads = (leader: Leader) => eventually(() => expect(leader.view().isLeader).toBe(true));

describe('the leadership of the guards', () => {
  it('is taken by one of two, which says so in the Lease, and the other one knows who it is', async () => {
    const { leader: one } = aLeader('g1-a');
    await leads(one);
    const { leader: two } = aLeader('g2-b');
    await eventually(() => expect(two.holder()).toBe('g1-a'));
    expect(two.view().isLeader).toBe(false);
    expect(holder()).toBe('g1-a');
  });

  it('is not said to be nobody by one that cannot read the Lease, and is by one that reads it', async () => {
    const { leader: one } = aLeader('g1-a');
    await leads(one);
    let isCut = false;
    const { leader: two } = aLeader('g2-b', { isCut: () => isCut });
    expect(two.isHolderKnown()).toBe(false);
    await eventually(() => expect(two.holder()).toBe('g1-a'));
    isCut = true;
    await eventually(() => expect(two.holder()).toBeNull());
    expect([one.view().isLeader, two.isHolderKnown()]).toEqual([true, false]);
    isCut = false;
    await eventually(() => expect(two.holder()).toBe('g1-a'));
    two.resign(60_000);
    await one.close();
    await eventually(() => expect([two.holder(), two.isHolderKnown()]).toEqual([null, true]));
  });

  it('begins above the epoch of every record, also if the Lease was deleted', async () => {
    const { leader } = aLeader('g1-a', { recordsEpoch: 7 });
    await leads(leader);
    expect(leader.view()).toMatchObject({ epoch: 8 });
  });

  it('is given back at the end, also while a renewal is under way', async () => {
    const { leader } = aLeader('g1-a');
    await leads(leader);
    let closing: Promise<void> | null = null;
    api.before(({ method, path }) => {
      if (method === 'PUT' && path === LEASE) closing ??= leader.close();
    });
    await eventually(() => expect(closing).not.toBeNull());
    await closing;
    expect(api.objects.has(LEASE)).toBe(true);
    expect(holder()).toBeNull();
  });

  it('ends by the own clock 10 s after the last renewal was sent, if no later one is answered', async () => {
    const { leader } = aLeader('g1-a');
    await leads(leader);
    api.stub.fault(/leases/, { kind: 'hang' }, 1_000);
    const view = leader.view();
    await eventually(() => expect(leader.view().isLeader).toBe(false));
    expect(view.isLeader && fast.monoMs() >= view.authorityUntilMs).toBe(true);
    expect(holder()).toBe('g1-a');
  });

  it('knows the versions that its Lease had a moment ago', async () => {
    const { leader } = aLeader('g1-a');
    await leads(leader);
    const version = () => String(api.objects.get(LEASE)?.metadata['resourceVersion']);
    const first = version();
    await eventually(() => expect([leader.hasJustHad(first), leader.hasJustHad('6')]).toEqual([true, false]));
    await eventually(() => expect(version()).not.toBe(first));
    const sinceMs = fast.monoMs();
    await eventually(() => expect(fast.monoMs() - sinceMs).toBeGreaterThan(50_000));
    expect(leader.hasJustHad(first)).toBe(false);
    await eventually(() => expect(leader.hasJustHad(version())).toBe(true));
  });

  it('is not said to be impossible any more once its Lease can be read again', async () => {
    const { leader: one } = aLeader('g1-a');
    await leads(one);
    api.stub.fault(/leases/, { kind: 'status', status: 500, body: { kind: 'Status', message: 'etcd' } }, 4);
    const { leader: two, present } = aLeader('g2-b');
    await eventually(() => expect(present.get('guard-not-leading')).toContain('(500)'));
    await eventually(() => expect(two.holder()).toBe('g1-a'));
    await eventually(() => expect(present.get('guard-not-leading')).toBeUndefined());
    expect(two.view().isLeader).toBe(false);
  });

  it('is not run for with another configuration than the leader has', async () => {
    const { leader: one } = aLeader('g1-a');
    await leads(one);
    const { leader: two, present } = aLeader('g2-b', { hash: 'another' });
    await eventually(() => expect(two.heldBack()).toBe('config-differs'));
    expect(present.get('guard-config-differs')).toContain('g1-a');
    // Whoever reads it knows not whether g1-a still leads.
    expect(present.get('guard-config-differs')).not.toContain('leader g1-a');
  });
});
