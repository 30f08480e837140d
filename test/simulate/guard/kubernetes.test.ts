import { describe, expect, it } from 'vitest';
import { OUT_OF_SERVICE } from '../../../src/simulate/guard/kubernetes.ts';
import type { World } from '../../../src/simulate/guard/world.ts';
import { aWorld, type Json, MEMBER, told } from './a-world.ts';

const TWO: readonly Json[] = [{ name: 'w1', pods: [MEMBER] }, { name: 'w2' }];

function setTaint({ store, kubernetes }: World, node: string, isSet: boolean): void {
  store.putNode(node, { taints: isSet ? [{ key: OUT_OF_SERVICE, value: 'nodewarden.x', effect: 'NoExecute' }] : [] });
  kubernetes.tainted(node);
}

describe('the model of Kubernetes', () => {
  it('renews a lease every 10 s, each node at instants of its own', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(100_000);
    const first = Number(world.renewTime('w1'));
    expect(first).toBeGreaterThan(90_000);
    expect(Number(world.renewTime('w2')) % 10_000).not.toBe(first % 10_000);
    world.agenda.runUntil(first + 9_999);
    expect(Number(world.renewTime('w1'))).toBe(first);
    world.agenda.runUntil(first + 10_000);
    expect(Number(world.renewTime('w1'))).toBe(first + 10_000);
  });

  it('has no renewal of a machine without power, and another token after its clock was set', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(60_000);
    world.machines.get('w1')?.switchFeed(false);
    world.stepClock('w2', -3_600_000);
    const before = world.renewTime('w1');
    world.agenda.runUntil(200_000);
    expect(world.renewTime('w1')).toBe(before);
    expect(Number(world.renewTime('w2'))).toBeLessThan(0);
  });

  it('has no renewal of a machine that hangs because its clock was set', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(60_000);
    world.machines.get('w1')?.freeze(true);
    const before = world.renewTime('w1');
    world.stepClock('w1', -3_600_000);
    expect(world.renewTime('w1')).toBe(before);
    world.agenda.runUntil(90_000);
    world.machines.get('w1')?.freeze(false);
    world.agenda.runUntil(110_000);
    expect(Number(world.renewTime('w1'))).toBeLessThan(0);
  });

  it('calls a silent node Unknown 50 s after its last renewal, and deletes its pods 300 s later, which nobody confirms', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(60_000);
    const last = Number(world.renewTime('w1'));
    world.machines.get('w1')?.freeze(true);
    world.agenda.runUntil(last + 49_999);
    expect(world.store.node('w1')?.ready.status).toBe('True');
    world.agenda.runUntil(last + 50_000);
    expect(world.store.node('w1')?.ready).toMatchObject({ status: 'Unknown', reason: 'NodeStatusUnknown' });
    world.agenda.runUntil(last + 350_000);
    expect(world.store.podsOf('w1')).toMatchObject([{ isTerminating: true }]);
    world.agenda.runUntil(3_600_000);
    expect(world.store.podsOf('w1')).toHaveLength(1);
    expect(told(world.facts, 'pod-freed', 'detached')).toEqual([]);
  });

  it('frees the pods of a node that is out of service: PodGC every 20 s, volume after 2 s, successor when it is detached', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(60_000);
    world.machines.get('w1')?.switchFeed(false);
    world.agenda.runUntil(181_000);
    setTaint(world, 'w1', true);
    world.agenda.runUntil(300_000);
    expect(told(world.facts, 'pod-freed', 'detached', 'pod-started').slice(1)).toEqual([
      '200s pod-freed default/db',
      '202s detached default/db',
      '203s pod-started default/db',
    ]);
    expect(world.store.podsOf('w2')).toMatchObject([{ name: 'default/db' }]);
  });

  it.each([
    ['a finalizer', { finalizer: true }, [], 1],
    ['a volume that never detaches', { detaches: false }, ['200s pod-freed default/db'], 1],
    ['a pod that tolerates the taint', { tolerates: true }, [], 1],
  ])('leaves %s where it is', (_, pod, freed, attached) => {
    const world = aWorld([{ name: 'w1', pods: [{ ...MEMBER, ...pod }] }, { name: 'w2' }]);
    world.machines.get('w1')?.switchFeed(false);
    world.agenda.runUntil(181_000);
    setTaint(world, 'w1', true);
    world.agenda.runUntil(600_000);
    expect(told(world.facts, 'pod-freed')).toEqual(freed);
    expect(world.store.attachmentsOf('w1')).toHaveLength(attached);
  });

  it('frees nothing of a tainted node that is Ready', () => {
    const world = aWorld(TWO);
    world.network.cut(['w1'], 'all');
    world.agenda.runUntil(100_000);
    setTaint(world, 'w1', true);
    world.network.heal(null);
    world.agenda.runUntil(118_000);
    expect(world.store.node('w1')?.ready.status).toBe('True');
    setTaint(world, 'w1', false);
    world.agenda.runUntil(300_000);
    expect(told(world.facts, 'pod-freed').filter((line) => line.startsWith('120s'))).toEqual([]);
  });

  it('runs pods on at a machine that is only cut off, and starts them again after a power cut', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(10_000);
    world.network.cut(['w1'], 'all');
    world.agenda.runUntil(20_000);
    expect(world.machines.get('w1')?.processes.size).toBe(1);
    world.network.heal(null);
    world.agenda.runUntil(40_000);
    world.machines.get('w1')?.switchFeed(false);
    expect(world.machines.get('w1')?.processes.size).toBe(0);
    world.machines.get('w1')?.switchFeed(true);
    world.agenda.runUntil(120_000);
    expect(world.machines.get('w1')?.processes.size).toBe(1);
    expect(world.store.node('w1')).toMatchObject({ bootId: 'w1-boot-2', ready: { status: 'True' } });
  });

  it('frees everything of a machine that shuts down in order, and nothing of one that reboots', () => {
    const world = aWorld([...TWO, { name: 'w3', pods: [{ ...MEMBER, name: 'cache' }] }]);
    world.kubernetes.announce('w1', 'shutdown', 20_000);
    world.kubernetes.announce('w3', 'reboot', 20_000);
    world.agenda.runUntil(300_000);
    expect(told(world.facts, 'pod-freed')).toEqual(['20s pod-freed default/db']);
    expect(world.machines.get('w1')?.isOn()).toBe(false);
    expect(world.store.attachmentsOf('w1')).toEqual([]);
    expect(world.store.node('w3')).toMatchObject({ bootId: 'w3-boot-2', isShuttingDown: false });
    expect(world.machines.get('w3')?.processes.size).toBe(1);
  });

  it('calls all nodes Unknown when the API server comes back, until their next renewal', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(60_000);
    world.api.setMode('down');
    world.agenda.runUntil(600_000);
    world.api.setMode('up');
    world.agenda.runUntil(605_000);
    expect(world.store.node('w1')?.taints.length).toBeLessThanOrEqual(1);
    world.agenda.runUntil(620_000);
    expect([...world.store.nodes.values()].map(({ ready }) => ready.status)).toEqual(['True', 'True']);
    expect(told(world.facts, 'silent', 'heard')).toHaveLength(4);
  });

  it('serves lists as they were while they are stale, and single objects as they are', () => {
    const world = aWorld(TWO);
    world.agenda.runUntil(60_000);
    const before = world.api.cached().renewTime('w1');
    world.api.setMode('stale');
    world.agenda.runUntil(200_000);
    expect(world.api.cached().renewTime('w1')).toBe(before);
    expect(world.renewTime('w1')).not.toBe(before);
  });
});
