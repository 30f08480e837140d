import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { apiPodOf } from '../../src/kube/api/api-pod.ts';
import { checkpointPath, keepCheckpoint, loadCheckpoint } from '../../src/kube/pods/checkpoint.ts';
import { heardParts } from '../standalone/needs.ts';
import { eventually } from './eventually.ts';
import { aV1Pod, type Json } from './pod-store.ts';
import { createVirtualClock } from './virtual-clock.ts';

const BOOT = 'boot-1';
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-checkpoint-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function podOf(name: string, rest: Omit<Parameters<typeof aV1Pod>[0], 'name'> = {}): ApiPod {
  const pod = apiPodOf(aV1Pod({ name, ...rest }), new Set());
  if (!pod.known) throw new Error(pod.detail);
  return pod.value;
}

function keep() {
  const clock = createVirtualClock();
  const parts = heardParts();
  let pods: readonly ApiPod[] | null = [];
  const watch = {
    pods: () =>
      pods === null
        ? unknown('not-asked', 'pods', 'not yet')
        : known(new Map(pods.map((pod) => [pod.declared.uid, pod]))),
    atMs: () => clock.monoMs(),
  };
  const { changed, close } = keepCheckpoint({
    stateDirectory: directory,
    ...{ bootId: BOOT, nodeName: 'node-1', clock },
    findings: parts.findings,
    watch,
  });
  const become = (next: readonly ApiPod[] | null): void => {
    pods = next;
    changed();
  };
  const load = (bootId = BOOT, nodeName = 'node-1') => loadCheckpoint(directory, { bootId, nodeName }, clock);
  return { clock, become, close, load, present: parts.present };
}
const file = () => checkpointPath(directory);
const isWritten = () => eventually(() => statSync(file()));

describe('the checkpoint', () => {
  it('is read back unchanged, only for this boot and only by us', async () => {
    const { clock, become, load, close } = keep();
    const pods = [
      podOf('a', {
        spec: {
          volumes: [{ name: 'v', emptyDir: { sizeLimit: '1Gi' } }, { name: 'w' }],
          tolerations: [{ key: 'k', operator: 'Exists' }],
          resources: { requests: { memory: '1Gi' } },
        },
        metadata: { ownerReferences: [{ kind: 'Job', name: 'j', uid: 'u', controller: true }] },
      }),
      podOf('b', {
        metadata: { deletionTimestamp: '2026-01-31T10:00:30Z' },
        status: { containerStatuses: [{ name: 'main' }] },
      }),
    ];
    become(pods);
    await clock.advance(1_000);
    const atMs = clock.monoMs();
    await isWritten();
    await close();
    const { checkpoint, finding } = load();
    expect(finding).toBeNull();
    expect(checkpoint).toMatchObject({ isProven: true, atMs });
    expect([...(checkpoint?.pods.values() ?? [])]).toEqual(pods.map((pod) => ({ ...pod, resourceVersion: '' })));
    expect([...(checkpoint?.pods.keys() ?? [])]).toEqual(pods.map(({ declared }) => declared.uid));
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(load('boot-2').checkpoint?.isProven).toBe(false);
    expect(load(BOOT, 'node-2').checkpoint?.isProven).toBe(false);
    expect(readdirSync(directory)).toEqual([path.basename(file())]);
  });

  it('is written once a second at most, and not if nothing changed', async () => {
    const { clock, become, close } = keep();
    for (let i = 0; i < 9; i++) {
      become([podOf('a', { uid: '00000000-0000-4000-8000-0000000000aa' })]);
      await clock.advance(100);
    }
    expect(() => statSync(file())).toThrow();
    await clock.advance(200);
    await isWritten();
    const before = statSync(file()).ino;
    become([podOf('a', { uid: '00000000-0000-4000-8000-0000000000aa', metadata: { resourceVersion: '99' } })]);
    await clock.advance(2_000);
    await close();
    expect(statSync(file()).ino).toBe(before);
    become([podOf('a'), podOf('b')]);
    await close();
    expect(statSync(file()).ino).not.toBe(before);
    expect(clock.timers()).toBe(0);
  });

  it('is not replaced by one of unknown pods', async () => {
    const { clock, become, close, load } = keep();
    become([podOf('a')]);
    await close();
    become(null);
    await clock.advance(2_000);
    await close();
    expect(load().checkpoint?.pods.size).toBe(1);
  });

  it('of a version that did not wait for the node to show its boot id proves nothing', async () => {
    const { become, close, load } = keep();
    become([podOf('a')]);
    await close();
    writeFileSync(file(), readFileSync(file(), 'utf8').replace('"nodeName":"node-1",', ''));
    expect(load()).toMatchObject({ checkpoint: { isProven: false }, finding: null });
  });

  it.each([
    ['half of it', (text: string) => text.slice(0, text.length / 2)],
    ['another version', (text: string) => text.replace('"schema":1', '"schema":2')],
    ['a uid that is a path', (text: string) => text.replace(/"uid":"[^"]+"/, '"uid":"../../x"')],
    ['a container that is a path', (text: string) => text.replace(/a{64}/, '../../../x')],
    ['a priority that is text', (text: string) => text.replace('"priority":0', '"priority":"high"')],
    ['a missing field', (text: string) => text.replace('"isMirror":false,', '')],
    ['no JSON', () => '\u0000\u0001'],
  ])('with %s is set aside, with a finding', async (_, spoil) => {
    const { become, close, load } = keep();
    become([podOf('a')]);
    await close();
    const text = readFileSync(file(), 'utf8');
    writeFileSync(file(), spoil(text));
    const { checkpoint, finding } = load();
    expect(checkpoint).toBeNull();
    expect(finding?.text).toMatch(/cannot be used .* was kept as .*corrupt/);
    expect(readdirSync(directory)).toHaveLength(1);
    expect(load()).toEqual({ checkpoint: null, finding: null });
  });

  it('has limited room; finished pods are left out first', async () => {
    const { become, close, load, present } = keep();
    const containers = Array.from({ length: 5_000 }, (_, i) => ({ name: `container-with-a-long-name-${i}` }));
    const huge = (name: string, phase: string) => podOf(name, { spec: { containers }, status: { phase } });
    become([
      huge('over', 'Failed'),
      ...Array.from({ length: 14 }, (_, i) => huge(`pod-${i}`, 'Running')),
      podOf('small'),
    ]);
    await close();
    expect(statSync(file()).size).toBeLessThan(8 * 1024 * 1024 + 1_000);
    const { checkpoint } = load();
    expect([...(checkpoint?.pods.values() ?? [])].some(({ object }) => object.name === 'over')).toBe(false);
    expect(present.get('api-checkpoint')).toMatch(/no room/);
    become([podOf('small')]);
    await close();
    expect(present.size).toBe(0);
  });

  it('that cannot be written is a finding, until it can be', async () => {
    const { become, close, present } = keep();
    mkdirSync(file());
    writeFileSync(path.join(file(), 'x'), '');
    become([podOf('a')]);
    await close();
    expect(present.get('api-checkpoint')).toMatch(/cannot be written/);
    rmSync(file(), { recursive: true });
    become([podOf('a'), podOf('b')]);
    await close();
    expect(present.size).toBe(0);
  });

  it('that could not be written is written soon, though nothing changes', async () => {
    const { clock, become, close, load, present } = keep();
    mkdirSync(file());
    writeFileSync(path.join(file(), 'x'), '');
    become([podOf('a')]);
    await clock.advance(1_000);
    await eventually(() => expect(present.size).toBe(1));
    rmSync(file(), { recursive: true });
    await clock.advance(10_000);
    await eventually(() => expect(present.size).toBe(0));
    expect(load().checkpoint?.pods.size).toBe(1);
    await close();
  });

  it("contains none of the pod's secrets", async () => {
    const { become, close } = keep();
    const spec: Json = {
      containers: [{ name: 'main', env: [{ name: 'A', value: 'secret' }], args: ['secret'], command: ['secret'] }],
    };
    become([podOf('a', { spec, metadata: { annotations: { note: 'secret' } } })]);
    await close();
    expect(readFileSync(file(), 'utf8')).not.toContain('secret');
  });
});
