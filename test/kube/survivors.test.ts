import { describe, expect, it } from 'vitest';
import { createSurvivorMemory } from '../../src/act/survivors.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { clock, machine, until } from '../host/test-cgroup.ts';
import { isUnable, mode, open, parts, podNamed, runPod, statuses, stub } from './an-open-kube.ts';
import { aUid, aV1Pod } from './pod-store.ts';

describe.skipIf(isUnable)('a pod beside a kubelet that survived its eviction [needs root and cgroups]', () => {
  it('is still a finding once the parts are rebuilt, until it ends', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app, pause } = await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    const [container] = podNamed('web')?.containers ?? [];
    const ref = container?.cgroup.known && machine !== null ? refOf(machine, container.cgroup.value.path) : null;
    if (!ref?.known) throw new Error('no container');
    const finding = { id: `survived/${uid}`, text: 'default/web survived its eviction: it hangs' };
    const memory = createSurvivorMemory();
    memory.survived = [{ uid, refs: [ref.value], survivedMs: clock.monoMs(), finding }];
    const rebuilt = async (): Promise<void> => {
      await mode.close(false);
      parts.present.clear();
      open(false, undefined, undefined, stub.url, memory);
    };
    await rebuilt();
    expect(parts.present.get(finding.id)).toBe(finding.text);
    await rebuilt();
    expect(parts.present.get(finding.id)).toBe(finding.text);
    app.kill('SIGKILL');
    await until(() => !parts.present.has(finding.id));
    expect(pause.isAlive()).toBe(true);
    await rebuilt();
    expect(parts.present.has(finding.id)).toBe(false);
  });
});
