// The Deployment of config/kubernetes as pods of a real kubelet, on this machine as the node, with the image of its Containerfile.
// Changed of it are the image, the device, and what Kubernetes 1.20 does not have. Its device answers as a BMC does.
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { ask, type KubeObject, MERGE } from '../../kube/api.ts';
import { CTR, ctr, ctrArguments, NODE_NAME, policyVersion, RUN, signalPart } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { apiServer } from '../api-proxy.ts';
import { aStatefulSet } from '../fleet.ts';
import { NAMESPACE } from '../guard.ts';
import type { Lab, LabScene } from '../lab.ts';
import { outOfService } from '../out-of-service.ts';
import { memberAt } from './one-machine.ts';

const ROOT = path.resolve(import.meta.dirname, '../../../..');
const IMAGE = 'docker.io/lab/nodewarden-guard:1';
/** Of the service network, to which the pods have a route. The first is where they look for the API server. */
const API = '10.96.0.1';
const BMC_PORT = 8_443;
const ADDRESSES = [API, ...Array.from({ length: 5 }, (_, at) => `10.96.0.${at + 2}`)];
const LOOK_EVERY_MS = 500;
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/nodewarden-guard`;

const script = (name: string, args: readonly string[], input?: string): string =>
  execFileSync(path.join(ROOT, 'test/lab', name), args, { input, encoding: 'utf8' });
const kubectl = (...args: readonly string[]): string => script('kube/k', args);

/** There is no kube-proxy: the service network is addresses of this machine. */
async function aServiceNetwork(): Promise<() => void> {
  const ip = (verb: string): void => {
    for (const address of ADDRESSES) execFileSync('ip', ['address', verb, `${address}/32`, 'dev', 'lo']);
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

type Bmc = {
  /** Requests with the right password: method and path. */
  readonly asked: readonly string[];
  readonly refused: () => number;
  readonly close: () => void;
};

/** What fence_redfish asks of one. */
async function aBmc(password: string): Promise<Bmc> {
  const asked: string[] = [];
  let refused = 0;
  const right = `Basic ${Buffer.from(`fencer:${password}`).toString('base64')}`;
  const system = {
    PowerState: 'On',
    Actions: { '#ComputerSystem.Reset': { target: '/redfish/v1/Systems/1/Actions/ComputerSystem.Reset' } },
  };
  const answers: { readonly [place: string]: object } = {
    '/redfish/v1': { Systems: { '@odata.id': '/redfish/v1/Systems' } },
    '/redfish/v1/Systems': { Members: [{ '@odata.id': '/redfish/v1/Systems/1' }] },
    '/redfish/v1/Systems/1': system,
  };
  const pki = (name: string): Buffer => fs.readFileSync(path.join(RUN, 'pki', name));
  const server = https.createServer({ key: pki('server.key'), cert: pki('server.crt') }, (request, response) => {
    const isRight = request.headers.authorization === right;
    if (isRight) asked.push(`${request.method} ${request.url}`);
    else refused += 1;
    response.statusCode = isRight ? 200 : 401;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify((isRight ? answers[request.url ?? ''] : null) ?? {}));
  });
  await new Promise<void>((resolve) => void server.listen(BMC_PORT, API, () => resolve()));
  return { asked, refused: () => refused, close: () => void server.close() };
}

/** The file of the repository, each change of which has to meet. */
function manifest(): string {
  const changes: readonly (readonly [string, string])[] = [
    ['registry.example/nodewarden-guard:0.2.0', IMAGE],
    ['{ kubeconfig: in-cluster }', `{ kubeconfig: in-cluster, outOfService: ${outOfService()} }`],
    ['{ ip: 10.0.9.10 }', `{ ip: ${API}, ipport: "${BMC_PORT}", ssl_insecure: "1" }`],
    ['apiVersion: policy/v1\n', `apiVersion: ${policyVersion()}\n`],
  ];
  let text = fs.readFileSync(path.join(ROOT, 'config/kubernetes/guard/deployment.yaml'), 'utf8');
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`deployment.yaml has no ${from}`);
    text = text.replace(from, to);
  }
  return text;
}

const pods = async (): Promise<readonly KubeObject[]> => (await ask(PODS))['items'];
const isReady = ({ status }: KubeObject): boolean =>
  (status.conditions ?? []).some(
    (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
  );
const readyPod = (not = ''): Promise<KubeObject> =>
  until(
    'a pod of the guard is Ready',
    async () => (await pods()).find((pod) => isReady(pod) && pod.metadata.uid !== not) ?? null,
    300_000,
  );

type Log = { readonly text: () => string; readonly end: () => void };
/** From now on. It is read while it grows: a kubelet of another cluster of this machine removes logs of pods that it does not know. */
function followLog({ metadata: { name, uid } }: KubeObject): Log {
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

let runs = 0;
/**
 * In its container, as its user: `kubectl exec` would need a way from the API server to the kubelet, which the lab does not have.
 * Awaited, since this process stands between the pods and the API server.
 */
function inside({ status }: KubeObject, ...command: readonly string[]): Promise<{ code: number; said: string }> {
  const container = String(status.containerStatuses[0].containerID).replace('containerd://', '');
  const args = ctrArguments('tasks', 'exec', '--exec-id', `lab-${++runs}`, container, ...command);
  return new Promise((resolve) => {
    execFile(CTR, args, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), said: `${stdout}${stderr}` });
    });
  });
}
const guard = (pod: KubeObject, ...words: readonly string[]) =>
  inside(pod, 'nodewarden', 'guard', ...words, '--config', '/etc/nodewarden-guard/..data/guard.yaml');

const deployment: LabScene = {
  name: 'as a Deployment',
  point: 0,
  body: async (lab) => {
    if (!fs.existsSync('/usr/bin/mmdebstrap')) return lab.skip('as a Deployment', 'there is no mmdebstrap');
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
      const bmc = await aBmc(password);
      ends.push(bmc.close);
      kubectl('label', 'node', NODE_NAME, 'node-role.kubernetes.io/control-plane=');
      kubectl(
        ...['-n', NAMESPACE, 'create', 'secret', 'generic', 'nodewarden-guard-secrets'],
        `--from-literal=bmc-password=${password}`,
      );
      script('kube/k', ['apply', '-f', '-'], manifest());
      await play(lab, bmc, password);
      kubectl(
        '-n',
        NAMESPACE,
        'delete',
        'deployment/nodewarden-guard',
        'secret/nodewarden-guard-secrets',
        '--wait=false',
      );
      await until('its pods are gone', async () => (await pods()).length === 0 || null);
    } finally {
      for (const end of ends.reverse()) end();
    }
  },
};

async function play(lab: Lab, bmc: Bmc, password: string): Promise<void> {
  const fleet = await lab.fleet(ADDRESSES.slice(1).map((address, at) => ({ name: `host${at}`, address })));
  await aStatefulSet('db', { 'kubernetes.io/hostname': 'host0' });
  await until('its member runs', () => memberAt('db-0'));
  const first = await readyPod();
  const log = followLog(first);
  const told = (words: string | RegExp, deadlineMs?: number): Promise<boolean> =>
    until(`it says ${words}`, () => log.text().search(words) >= 0 || null, deadlineMs).catch(() => false);
  const two = await pods();
  lab.check(
    'one of the two runs, and the other one waits for a second machine',
    two.length === 2 && two.some(({ status }) => status.phase === 'Pending'),
  );
  const self = (await inside(first, 'grep', '-E', '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):', '/proc/1/status')).said;
  lab.check(
    'it runs as its own user, without a capability, with a filter of system calls',
    /^Uid:\t20260\t/m.test(self) &&
      !/^Cap.*[1-9a-f]$/m.test(self) &&
      /^NoNewPrivs:\t1$/m.test(self) &&
      /^Seccomp:\t2$/m.test(self),
    self,
  );
  lab.check('its root is read-only', (await inside(first, 'touch', '/usr/sbin/fence_mine')).code !== 0);
  lab.check('it leads', await told('"event":"leader"'), log.text().slice(-2_000));
  const state = 'GET /redfish/v1/Systems/1';
  await until('its device was asked', () => bmc.asked.includes(state) || null, 300_000).catch(() => undefined);
  lab.check(
    'its agent asks the device with the password of the Secret',
    bmc.asked.includes(state) && bmc.refused() === 0,
    `${bmc.asked.length} asked, ${bmc.refused()} refused\n${log.text().slice(-2_000)}`,
  );
  const check = await guard(first, 'check');
  lab.check(
    'check in its pod: all of it works',
    check.code === 0 && check.said.includes('host0'),
    `${check.code} ${check.said}`,
  );
  const status = await guard(first, 'status');
  lab.check('status in its pod', status.code === 0 && status.said.includes('dry run'), `${status.code} ${status.said}`);

  fleet.machine('host0').kubelet('silent');
  lab.check(
    'a machine that falls silent would be fenced',
    await told('host0: would be fenced', 600_000),
    log.text().slice(-4_000),
  );
  fleet.machine('host0').kubelet('up');
  lab.check(
    'no device gets anything but a request for its status',
    bmc.asked.every((line) => line.startsWith('GET ')),
  );

  const map = `/api/v1/namespaces/${NAMESPACE}/configmaps/nodewarden-guard-config`;
  const text = (await ask(map))['data']['guard.yaml'].replace('dryRun: true', 'dryRun: true\ndeadAfter: 3m');
  await ask(map, { method: 'PATCH', type: MERGE, body: { data: { 'guard.yaml': text } } });
  lab.check(
    'a change of its ConfigMap is taken without a restart',
    await told(/is in force(.|\n)*is in force/, 300_000),
    log.text().slice(-2_000),
  );

  const again = (await pods()).find(({ metadata }) => metadata.uid === first.metadata.uid);
  lab.check('its probes never failed it', again?.['status'].containerStatuses[0].restartCount === 0);
  lab.check('its log does not have the password', !log.text().includes(password));
  log.end();
  const holder = (await ask(LEASE))['spec'].holderIdentity;
  const beganMs = Date.now();
  await ask(`${PODS}/${first.metadata.name}`, { method: 'DELETE' });
  const second = await readyPod(first.metadata.uid);
  await until('another one leads', async () => {
    const now = (await ask(LEASE))['spec'].holderIdentity;
    return (now !== '' && now !== holder) || null;
  });
  lab.figure(
    's from the deletion of the pod that leads to the next leader',
    ((Date.now() - beganMs) / 1_000).toFixed(0),
  );
  lab.check(
    'the pod that leads is deleted: the one that waited takes its place and leads',
    second.metadata.uid !== first.metadata.uid,
  );
}

export const DEPLOYMENT: readonly LabScene[] = [deployment];
