// The Deployment of config/kubernetes as pods of a real kubelet, on this machine as the node, with the image of its Containerfile.
// Changed of it are the image, the device, what Kubernetes 1.20 does not have, and what a scene says.
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { ask, type KubeObject } from '../kube/api.ts';
import { CTR, ctr, ctrArguments, NODE_NAME, policyVersion, RUN, signalPart } from '../kube/cluster.ts';
import { clock, until } from '../scene.ts';
import { apiServer } from './api-proxy.ts';
import { aBmc, type Bmc } from './bmc.ts';
import { NAMESPACE } from './guard.ts';
import type { Lab, LabScene } from './lab.ts';
import { outOfService } from './out-of-service.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const IMAGE = 'docker.io/lab/nodewarden-guard:1';
/** Of the service network, to which the pods have a route. The first is where they look for the API server. */
const API = '10.96.0.1';
/** For the ports of fake kubelets. */
export const KUBELETS = Array.from({ length: 5 }, (_, at) => `10.96.0.${at + 2}`);
const LOOK_EVERY_MS = 500;
export const GUARD_PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/nodewarden-guard`;

/** What is changed in the manifest: each has to be in it. */
export type Changes = readonly (readonly [string, string])[];

const script = (name: string, args: readonly string[], input?: string): string =>
  execFileSync(path.join(ROOT, 'test/lab', name), args, { input, encoding: 'utf8' });
const kubectl = (...args: readonly string[]): string => script('kube/k', args);

/** There is no kube-proxy: the service network is addresses of this machine. */
async function aServiceNetwork(): Promise<() => void> {
  const ip = (verb: string): void => {
    for (const address of [API, ...KUBELETS]) execFileSync('ip', ['address', verb, `${address}/32`, 'dev', 'lo']);
  };
  ip('replace');
  const port = Number(new URL(apiServer()).port);
  const server = net.createServer((near) => {
    const far = net.connect(port, '127.0.0.1');
    near.on('error', () => far.destroy()).on('close', () => far.destroy());
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => void server.listen(443, API, () => resolve()));
  return () => {
    server.close();
    ip('del');
  };
}

function manifest(bmc: Bmc, changes: Changes): string {
  const all: Changes = [
    ['registry.example/nodewarden-guard:0.2.0', IMAGE],
    ['{ kubeconfig: in-cluster }', `{ kubeconfig: in-cluster, outOfService: ${outOfService()} }`],
    ['{ ip: 10.0.9.10 }', `{ ip: ${API}, ipport: "${bmc.port}", ssl_insecure: "1" }`],
    ['apiVersion: policy/v1\n', `apiVersion: ${policyVersion()}\n`],
    ...changes,
  ];
  let text = fs.readFileSync(path.join(ROOT, 'config/kubernetes/guard/deployment.yaml'), 'utf8');
  for (const [from, to] of all) {
    if (!text.includes(from)) throw new Error(`deployment.yaml has no ${from}`);
    text = text.replace(from, to);
  }
  return text;
}

/** `body` with the Deployment applied, and the device that it asks for host0. */
export async function withDeployment(
  lab: Lab,
  { name }: Pick<LabScene, 'name'>,
  changes: Changes,
  body: (bmc: Bmc, password: string) => Promise<void>,
): Promise<void> {
  if (!fs.existsSync('/usr/bin/mmdebstrap')) return lab.skip(name, 'there is no mmdebstrap');
  const password = randomBytes(8).toString('hex');
  const ends: (() => void)[] = [];
  try {
    const archive = process.env['LAB_GUARD_IMAGE'] ?? path.join(RUN, 'guard.tar');
    if (!fs.existsSync(archive)) script('guard/image', [IMAGE, archive]);
    script('kube/node', ['4g']);
    ends.push(
      () => signalPart('containerd', 'SIGTERM'),
      () => signalPart('kubelet', 'SIGTERM'),
    );
    ctr('images', 'import', archive);
    ends.push(await aServiceNetwork());
    const bmc = await aBmc(API, password);
    ends.push(bmc.close);
    kubectl('label', 'node', NODE_NAME, 'node-role.kubernetes.io/control-plane=');
    kubectl(
      ...['-n', NAMESPACE, 'create', 'secret', 'generic', 'nodewarden-guard-secrets'],
      `--from-literal=bmc-password=${password}`,
    );
    script('kube/k', ['apply', '-f', '-'], manifest(bmc, changes));
    await body(bmc, password);
    kubectl(
      '-n',
      NAMESPACE,
      'delete',
      'deployment/nodewarden-guard',
      'secret/nodewarden-guard-secrets',
      '--wait=false',
    );
    await until('its pods are gone', async () => (await guardPods()).length === 0 || null);
  } finally {
    for (const end of ends.reverse()) end();
  }
}

export const guardPods = async (): Promise<readonly KubeObject[]> => (await ask(GUARD_PODS))['items'];
/** "" while none leads. */
export const leader = (): Promise<string> =>
  ask(LEASE).then(
    ({ spec }) => spec.holderIdentity ?? '',
    () => '',
  );

export type Log = { readonly text: () => string; readonly end: () => void };
/** From now on. It is read while it grows: a kubelet of another cluster of this machine removes logs of pods that it does not know. */
export function followLog({ metadata: { name, uid } }: KubeObject): Log {
  const directory = `/var/log/pods/${NAMESPACE}_${name}_${uid}/guard`;
  const lines = new Set<string>();
  let isOver = false;
  const read = (): void => {
    try {
      for (const file of fs.readdirSync(directory)) {
        for (const line of fs.readFileSync(path.join(directory, file), 'utf8').split('\n')) lines.add(line);
      }
    } catch {
      // It has just gone.
    }
    if (!isOver) clock.after(LOOK_EVERY_MS, read);
  };
  read();
  return {
    text: () => [...lines].join('\n'),
    end: () => {
      isOver = true;
    },
  };
}

const containerOf = ({ status }: KubeObject): string =>
  String(status.containerStatuses[0].containerID).replace('containerd://', '');

let runs = 0;
/**
 * In its container, as its user: `kubectl exec` would need a way from the API server to the kubelet, which the lab does not have.
 * Awaited, since this process stands between the pods and the API server.
 */
export function inside(pod: KubeObject, ...command: readonly string[]): Promise<{ code: number; said: string }> {
  const args = ctrArguments('tasks', 'exec', '--exec-id', `lab-${++runs}`, containerOf(pod), ...command);
  return new Promise((resolve) => {
    execFile(CTR, args, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), said: `${stdout}${stderr}` });
    });
  });
}
export const guard = (pod: KubeObject, ...words: readonly string[]) =>
  inside(pod, 'nodewarden', 'guard', ...words, '--config', '/etc/nodewarden-guard/..data/guard.yaml');

export const killContainer = (pod: KubeObject): string => ctr('tasks', 'kill', '-s', 'SIGKILL', containerOf(pod));
