import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { liveNow } from '../../src/kube/ladder.ts';
import { machine } from '../host/test-cgroup.ts';
import { APP, aWeb, away, declare, node, open, podOf, tellRuntime, textOf, WEB } from './a-kubelet-node.ts';
import { anApiPod } from './an-api-pod.ts';

describe.skipIf(machine === null)('the pods of a node with a kubelet, as findings [needs root and cgroups]', () => {
  it('count a cgroup that nobody can name as a container, which is a finding if it lasts', async () => {
    aWeb();
    const source = open();
    expect((await podOf(source))?.containers.map(({ name }) => name).sort()).toEqual(['app', 'f'.repeat(12)]);
    expect(liveNow({ source }, WEB)?.sandboxes).toEqual([]);
    expect(node.asked).toBe(1);
    expect(textOf('kube-containers-unnamed')).toBeUndefined();
    await node.time.pass(10_000);
    expect(textOf('kube-containers-unnamed')).toContain('default/web');
    tellRuntime();
    await node.time.pass(2_000);
    expect(textOf('kube-containers-unnamed')).toBeUndefined();
    expect((await podOf(source))?.containers).toHaveLength(1);
  });

  it('may have annotations that bind to something else: these have no effect, and are a finding', async () => {
    aWeb({ api: { bindings: ['nodewarden.dev/cgroup'] } });
    const source = open();
    expect((await podOf(source))?.cgroup).toMatchObject({
      value: { path: `${node.tree.kubepods}/burstable/pod${WEB}` },
    });
    expect(textOf('kube-bindings-ignored')).toContain('default/web');
  });

  it('are a finding if the runtime says that they run but their containers are in no cgroup, and that lasts', async () => {
    declare(anApiPod({ name: 'web', uid: WEB }));
    const listNow = (): void => tellRuntime({ atMs: node.time.clock.monoMs() });
    listNow();
    open();
    listNow();
    await node.time.pass(10_000);
    expect(textOf('kube-containers-missing')).toContain('default/web');
    node.tree.addPod('Burstable', WEB, APP);
    await node.time.pass(2_000);
    expect(textOf('kube-containers-missing')).toBeUndefined();
  });

  it('do not lack a container while they wait for a restart, although the runtime had listed it as running', async () => {
    aWeb();
    tellRuntime({ atMs: node.time.clock.monoMs() });
    open();
    node.tree.remove(node.tree.containerIn(node.tree.addPod('Burstable', WEB), APP));
    for (let times = 0; times < 4; times++) await node.time.pass(10_000);
    expect(textOf('kube-containers-missing')).toBeUndefined();
    expect(node.asked).toBeGreaterThan(0);
  });

  it("are found by the driver on disk if another is stated, and the runtime's statement outranks the configuration", async () => {
    aWeb();
    node.saidDriver = known('systemd');
    open({ configuredDriver: 'cgroupfs' });
    expect(textOf('kube-cgroup-driver')).toContain(`be systemd, but the pods are in ${node.tree.kubepods}`);
    node.saidDriver = away;
    await node.time.pass(2_000);
    expect(textOf('kube-cgroup-driver')).toBeUndefined();
  });

  it('are nowhere without a kubelet, which is a finding if it lasts, until the kubelet comes', async () => {
    open();
    await node.time.pass(10_000);
    expect(textOf('kube-no-pods-cgroup')).toContain(`${node.tree.cgroupRoot}/kubepods`);
    node.tree.make(node.tree.kubepods);
    await node.time.pass(2_000);
    expect(textOf('kube-no-pods-cgroup')).toBeUndefined();
  });
});
