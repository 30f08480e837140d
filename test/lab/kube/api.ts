// The API server, asked by the lab as its administrator.
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { parse } from 'yaml';
import { policyVersion, RUN } from './cluster.ts';

export type KubeObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
    readonly labels?: { readonly [name: string]: string };
    readonly ownerReferences?: readonly { readonly kind: string; readonly uid: string }[];
  };
  // The lab trusts the API server.
  // biome-ignore lint/suspicious/noExplicitAny: objects of any kind
  readonly [field: string]: any;
};

/** Its condition Ready is True: of a node or a pod. */
export const saysReady = (object: KubeObject | undefined): boolean =>
  (object?.['status']?.conditions ?? []).some(
    ({ type, status }: { type: string; status: string }) => type === 'Ready' && status === 'True',
  );

const PLACES: { readonly [kind: string]: string } = {
  Pod: '/api/v1/namespaces/default/pods',
  Deployment: '/apis/apps/v1/namespaces/default/deployments',
  ReplicaSet: '/apis/apps/v1/namespaces/default/replicasets',
  StatefulSet: '/apis/apps/v1/namespaces/default/statefulsets',
  DaemonSet: '/apis/apps/v1/namespaces/default/daemonsets',
  Job: '/apis/batch/v1/namespaces/default/jobs',
  PriorityClass: '/apis/scheduling.k8s.io/v1/priorityclasses',
};
export const NODE = '/api/v1/nodes/lab-node';
export const PODS = PLACES['Pod'] ?? '';
export const EVENTS = '/api/v1/namespaces/default/events';
export const STRATEGIC = 'application/strategic-merge-patch+json';
export const MERGE = 'application/merge-patch+json';
const ANSWER_DEADLINE_MS = 30_000;

let agent: https.Agent | null = null;
function connection(): { readonly server: string; readonly agent: https.Agent } {
  const config = parse(fs.readFileSync(path.join(RUN, 'admin.conf'), 'utf8'));
  const decode = (text: string): Buffer => Buffer.from(text, 'base64');
  const { user } = config.users[0];
  const { cluster } = config.clusters[0];
  agent ??= new https.Agent({
    ca: decode(cluster['certificate-authority-data']),
    cert: decode(user['client-certificate-data']),
    key: decode(user['client-key-data']),
    keepAlive: true,
  });
  return { server: cluster.server, agent };
}

export type Asked = {
  readonly method?: string;
  readonly body?: unknown;
  readonly type?: string;
  /** A user and a group of it, with all rights: only admission can refuse. */
  readonly as?: { readonly user: string; readonly group: string };
};

/** The parsed answer; of a status of 400 and more, an error with its text. */
export function ask(
  place: string,
  { method = 'GET', body, type = 'application/json', as }: Asked = {},
): Promise<KubeObject> {
  const { server, agent: by } = connection();
  return new Promise((resolve, reject) => {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    // Node.js itself names no length for a DELETE.
    const headers = {
      accept: 'application/json',
      ...(as === undefined ? {} : { 'impersonate-user': as.user, 'impersonate-group': [as.group, 'system:masters'] }),
      ...(sent === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(sent) }),
    };
    const request = https.request(`${server}${place}`, { method, agent: by, headers }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(parts).toString('utf8');
        const code = response.statusCode ?? 0;
        if (code >= 400) reject(new Error(`${method} ${place}: ${code} ${text.slice(0, 500)}`));
        else resolve(JSON.parse(text));
      });
    });
    request.setTimeout(ANSWER_DEADLINE_MS, () => request.destroy(new Error(`${method} ${place}: no answer`)));
    request.on('error', reject);
    request.end(sent);
  });
}

const placeOf = (kind: string): string => {
  if (kind === 'PodDisruptionBudget') return `/apis/${policyVersion()}/namespaces/default/poddisruptionbudgets`;
  const place = PLACES[kind];
  if (place === undefined) throw new Error(`the lab does not know where a ${kind} is`);
  return place;
};
export const create = (object: Pick<KubeObject, 'kind'> & { readonly [field: string]: unknown }): Promise<KubeObject> =>
  ask(placeOf(object.kind), { method: 'POST', body: object });
export const list = async (kind: string): Promise<readonly KubeObject[]> => {
  const { items } = await ask(placeOf(kind));
  return items.map((item: KubeObject) => ({ ...item, kind }));
};
export const get = (kind: string, name: string): Promise<KubeObject> => ask(`${placeOf(kind)}/${name}`);
/** One that has gone is as good. */
export async function remove(kind: string, name: string, graceSeconds?: number): Promise<void> {
  const body = {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    propagationPolicy: 'Background',
    ...(graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds }),
  };
  await ask(`${placeOf(kind)}/${name}`, { method: 'DELETE', body }).catch((error: Error) => {
    if (!error.message.includes(': 404 ')) throw error;
  });
}
export const OWNERS: readonly string[] = [
  'Deployment',
  'ReplicaSet',
  'StatefulSet',
  'DaemonSet',
  'Job',
  'PodDisruptionBudget',
];

/** Events of a watch until its end, whatever ended it. */
export function watch(place: string, onEvent: (type: string, object: KubeObject) => void): () => void {
  const { server, agent: by } = connection();
  let isOver = false;
  let request: ReturnType<typeof https.get> | null = null;
  const again = (): void => {
    if (!isOver) setTimeout(open, 300);
  };
  const open = (): void => {
    if (isOver) return;
    let rest = '';
    let isEnded = false;
    const end = (): void => {
      if (isEnded) return;
      isEnded = true;
      again();
    };
    // Without a resourceVersion it begins with what is there.
    request = https.get(`${server}${place}?watch=true`, { agent: by }, (response) => {
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          const { type, object } = JSON.parse(line);
          onEvent(type, object);
        }
      });
      response.on('end', end);
      response.on('error', end);
      response.on('close', end);
    });
    request.on('error', end);
  };
  open();
  return () => {
    isOver = true;
    request?.destroy();
  };
}
