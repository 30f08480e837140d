// A bounded node with idle pods, and a headless Chromium that looks at the page of an agent.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { openBoundedCgroup } from '../../src/host/cgroup/bounded-cgroup.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { clock } from '../../test/lab/scene.ts';
import { openBrowser, openPage } from '../../test/page/a-browser.ts';

export type PodNode = {
  /** Lines of the agent's configuration. */
  readonly config: readonly string[];
  /** YAML, a document for each pod. */
  readonly manifests: string;
  readonly close: () => Promise<void>;
};

/** Enough for the pods, which only sleep, to be far from every threshold. */
const MEMORY_BYTES = 4 * 2 ** 30;
const SPARE_PIDS = 4_096;

export async function openPodNode(pods: number): Promise<PodNode> {
  const mounts = findCgroupMounts();
  if (!mounts.known) throw new Error(mounts.detail);
  const name = `nodewarden-bench-pods-${process.pid}`;
  const bounds = { memoryBytes: MEMORY_BYTES, maxPids: pods + SPARE_PIDS };
  const node = await openBoundedCgroup({ mounts: mounts.value, clock, name, ...bounds });
  if (!node.known) throw new Error(node.detail);
  const processes: ChildProcess[] = [];
  const names = Array.from({ length: pods }, (_, i) => `pod-${i + 1}`);
  const close = async (): Promise<void> => {
    for (const child of processes) child.kill('SIGKILL');
    const left = await node.value.remove();
    if (left !== null) throw new Error(left);
  };
  try {
    for (const pod of names) {
      const directories = node.value.addChild(pod);
      if (!directories.known) throw new Error(directories.detail);
      const child = spawn('/bin/sleep', ['infinity'], { stdio: 'ignore' });
      processes.push(child);
      for (const at of directories.value) fs.writeFileSync(path.join(at, 'cgroup.procs'), String(child.pid));
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { config: [`cgroupRoot: ${node.value.path}`], manifests: names.map(manifestOf).join('---\n'), close };
}

const manifestOf = (name: string): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, annotations: { nodewarden.dev/cgroup: ${name} } }
spec: { containers: [{ name: main, resources: { requests: { memory: 8Mi } } }] }
`;

/** Shows the page until `close`. */
export async function lookAt(port: number): Promise<{ readonly close: () => Promise<void> }> {
  const browser = await openBrowser();
  await openPage(browser, `http://127.0.0.1:${port}/`);
  return { close: () => browser.close() };
}
