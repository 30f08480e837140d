import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { discoverEviction } from '../../src/kube/api/eviction.ts';
import { openConnection } from '../../src/kube/api/open-connection.ts';
import { lookAtNode } from '../../src/kube/api/own-node.ts';
import { type PodWatch, watchPods } from '../../src/kube/pods/pod-watch.ts';
import { heardParts, hurried } from '../standalone/needs.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';
import { eventually } from './eventually.ts';
import { aV1Pod, type Json, NODE } from './pod-store.ts';
import { BOOT_ID, startStubApi } from './stub-api.ts';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
let authority: Authority;
beforeAll(() => {
  authority = createAuthority();
});
afterAll(() => authority.remove());

/** Of a machine that does much else. */

async function aCluster(times: number) {
  const stub = await startStubApi(authority);
  const parts = heardParts();
  const clock = hurried(createClock(), times);
  const kubeconfig = writeKubeconfig(authority, stub.url);
  const connection = openConnection({ clock, findings: parts.findings, kubeconfig });
  const watch = watchPods({
    connection,
    clock,
    nodeName: NODE,
    protectNamespaces: [],
    findings: parts.findings,
    onChange: () => undefined,
  });
  const close = async () => {
    watch.close();
    connection.close();
    await eventually(() => expect(stub.sockets()).toBe(0));
    await stub.stop();
  };
  return { stub, connection, watch, present: parts.present, close };
}
function versions(watch: PodWatch): readonly string[] {
  const pods = watch.pods();
  return pods.known
    ? [...pods.value.values()].map(({ object, resourceVersion }) => `${object.uid} ${resourceVersion}`).sort()
    : [];
}
const stored = (objects: readonly Json[]) =>
  objects.map(({ metadata }) => `${(metadata as Json)['uid']} ${(metadata as Json)['resourceVersion']}`).sort();

describe('over TLS', () => {
  it('the node, the version of evictions and the pods are read', async () => {
    const { stub, connection, watch, close } = await aCluster(1);
    stub.store.put(aV1Pod({ name: 'a' }));
    const own = { nodeName: NODE, bootId: BOOT_ID };
    expect(await lookAtNode(connection.get, own, 5_000)).toMatchObject({ kind: 'node' });
    expect(await discoverEviction(connection.get, 5_000)).toEqual({ known: true, value: 'policy/v1' });
    await eventually(() => expect(versions(watch)).toEqual(stored(stub.store.of(NODE))));
    stub.store.put(aV1Pod({ name: 'b' }));
    await eventually(() => expect(versions(watch)).toEqual(stored(stub.store.of(NODE))));
    expect(stub.heard.filter(({ path: at }) => at.includes('limit=500'))).toHaveLength(1);
    const watched = stub.heard.find(({ path: at }) => at.includes('watch=true'))?.path ?? '';
    const query = new URL(watched, stub.url).searchParams;
    expect(query.get('fieldSelector')).toBe('spec.nodeName=node-1');
    expect(query.get('allowWatchBookmarks')).toBe('true');
    expect(Number(query.get('timeoutSeconds'))).toBeGreaterThanOrEqual(300);
    expect(Number(query.get('timeoutSeconds'))).toBeLessThanOrEqual(600);
    await close();
  });

  it('broken connections and other faults lose no pod and leave nothing open', async () => {
    const { stub, watch, present, close } = await aCluster(50);
    await eventually(() => expect(watch.isCurrent()).toBe(true));
    const descriptors = readdirSync('/proc/self/fd').length;
    const faults = ['reset', 'garbage', 'cut-body', 410, 429, 500, 401, 403] as const;
    for (let i = 0; i < 16; i++) {
      const fault = faults[i % faults.length] ?? 500;
      stub.fault(/pods/, typeof fault === 'number' ? { kind: 'status', status: fault } : { kind: fault });
      stub.store.put(aV1Pod({ name: `pod-${i % 20}` }));
      if (i % 3 === 0) stub.store.remove(`default/pod-${(i + 7) % 20}`);
      if (i % 4 === 0) stub.sayRaw('{"type":"ADD');
      const before = stub.store.counts().watches;
      stub.breakAll();
      await eventually(() => expect(stub.store.counts().watches).toBeGreaterThan(before));
      await eventually(() => expect(watch.isCurrent()).toBe(true));
    }
    await eventually(() => expect(versions(watch)).toEqual(stored(stub.store.of(NODE))));
    await eventually(() => expect(stub.sockets()).toBeLessThanOrEqual(3));
    expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(descriptors + 6);
    await eventually(() => expect([...present.keys()]).toEqual([]));
    await close();
  });

  it('a server that goes away is noticed, and comes back with its current pods', async () => {
    const { stub, watch, present, close } = await aCluster(20);
    stub.store.put(aV1Pod({ name: 'a' }));
    stub.store.put(aV1Pod({ name: 'b' }));
    await eventually(() => expect(versions(watch)).toHaveLength(2));
    await stub.stop();
    await eventually(() => expect(present.has('api-away')).toBe(true));
    expect([watch.isCurrent(), versions(watch).length]).toEqual([false, 2]);
    stub.store.remove('default/a');
    stub.store.forget();
    await stub.listen();
    await eventually(() => expect(versions(watch)).toEqual(stored(stub.store.of(NODE))));
    await eventually(() => expect([watch.isCurrent(), present.size]).toEqual([true, 0]));
    await close();
  });
});

describe('the bundle of mode kubelet', () => {
  it('contains only what the Kubernetes client needs to read a kubeconfig', () => {
    const outdir = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bundle-'));
    const args = ['scripts/build.mjs', '--entry', 'src/kube/api/open-connection.ts', '--outdir', outdir];
    execFileSync(process.execPath, args, { cwd: ROOT });
    const packages = [...readFileSync(path.join(outdir, 'NOTICE'), 'utf8').matchAll(/^-{10,}\n(\S+) \d/gm)].map(
      ([, name]) => name,
    );
    expect(packages).toContain('@kubernetes/client-node');
    for (const name of ['undici', 'openid-client', 'socks', 'socks-proxy-agent', 'hpagent', 'jsonpath-plus']) {
      expect(packages).not.toContain(name);
    }
    const bundle = path.join(outdir, 'nodewarden.js');
    // The clients of all kinds would make it three times as large.
    expect(statSync(bundle).size).toBeLessThan(300_000);
    const program = `const { openConnection } = require(${JSON.stringify(bundle)}); console.log(typeof openConnection)`;
    expect(execFileSync(process.execPath, ['-e', program], { encoding: 'utf8' })).toBe('function\n');
    rmSync(outdir, { recursive: true });
  });
});
