import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { guardConfigOf } from '../../src/config/guard/load.ts';
import { createGuardWrites } from '../../src/guard/api-writes.ts';
import { createAsked } from '../../src/guard/asked.ts';
import { readOwnMap } from '../../src/guard/own-map.ts';
import { guardRights } from '../../src/guard/rights.ts';
import { runGuard } from '../../src/guard/run.ts';
import { aCommand } from '../cli/a-command.ts';
import { eventually } from '../kube/eventually.ts';
import {
  aGuardApi,
  clock,
  type GuardApi,
  ID,
  LEASES,
  MAPS,
  NAMESPACE,
  W1,
  withAuthority,
  writeGuardKubeconfig,
} from './a-guard-api.ts';

const DIRECTORY = path.resolve(import.meta.dirname, '../../config/kubernetes/guard');
type Rule = { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] };
type Document = {
  kind: string;
  metadata: { name: string; namespace?: string };
  rules?: Rule[];
  data?: Record<string, string>;
  spec?: Record<string, never>;
};
const documents = (file: string): Document[] =>
  parseAllDocuments(fs.readFileSync(path.join(DIRECTORY, file), 'utf8')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS();
  });

const said = (verb: string, group: string, resource: string, namespace = '', name = ''): string =>
  [verb, `${group}/${resource}`, namespace, name].join(' ').trim();
const wanted = (): readonly string[] =>
  guardRights(NAMESPACE)
    .map(({ attributes: { verb, group, resource, subresource, namespace, name } }) =>
      said(verb, group, subresource === undefined ? resource : `${resource}/${subresource}`, namespace, name),
    )
    .sort();

/** The right that a request needs; null: none. */
function rightOf(method: string, url: string): string | null {
  const { pathname, searchParams } = new URL(url, 'https://stub');
  const match =
    /^\/(?:api\/v1|apis\/([^/]+)\/[^/]+)\/(?:namespaces\/([^/]+)\/)?([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(
      pathname,
    );
  if (match === null) return null;
  const [, group = '', namespace = '', resource = '', name = '', sub] = match;
  const read = name !== '' ? 'get' : searchParams.get('watch') === 'true' ? 'watch' : 'list';
  const verb = { GET: read, POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' }[method] ?? method;
  const isNamed = name === 'nodewarden-guard' && namespace === NAMESPACE;
  return said(verb, group, sub === undefined ? resource : `${resource}/${sub}`, namespace, isNamed ? name : '');
}

withAuthority();
const command = aCommand();
let api: GuardApi;
beforeAll(async () => {
  api = await aGuardApi();
});
afterAll(() => api.close());

describe('the rights of the guard', () => {
  it('are those of its Roles in the manifest, and no others', () => {
    const granted = documents('rbac.yaml')
      .filter(({ metadata: { name } }) => name === 'nodewarden-guard')
      .flatMap(({ metadata: { namespace }, rules = [] }) =>
        rules.flatMap(({ apiGroups, resources, verbs, resourceNames = [''] }) =>
          apiGroups.flatMap((group) =>
            resources.flatMap((resource) =>
              verbs.flatMap((verb) => resourceNames.map((name) => said(verb, group, resource, namespace, name))),
            ),
          ),
        ),
      );
    expect(granted.sort()).toEqual(wanted());
  });

  it('are all used, and no request needs another one', async () => {
    api.putNode(W1);
    api.put(`/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/w1`, {
      ...{ kind: 'Lease', metadata: { name: 'w1' }, spec: { renewTime: 't1', leaseDurationSeconds: 40 } },
    });
    // Given back by another one: it need not be watched for 15 s.
    api.put(`${LEASES}/nodewarden-guard`, { metadata: { name: 'nodewarden-guard' }, spec: { leaseTransitions: 3 } });
    await aDryRun();
    const { connection } = api;
    const asked = createAsked({
      ...{ connection, clock, arrived: () => undefined },
      nodes: { byUid: (uid) => ({ object: { name: uid }, hasVolumes: () => false }) as never },
      witnesses: { ask: () => undefined } as never,
    });
    asked.ask({
      witness: [],
      pods: ['w1'],
      members: [],
      looks: [{ name: 'w1', uid: 'w1', bootId: '' }],
      attachments: true,
    });
    await readOwnMap({ get: connection.get, namespace: NAMESPACE }, 'guard-devices');
    await everyWrite();
    const used = (): readonly string[] =>
      [...new Set(api.stub.heard.flatMap(({ method, path: url }) => rightOf(method, url) ?? []))].sort();
    await eventually(() => expect(used()).toEqual(wanted()));
  }, 60_000);
});

/** Until it leads and watches. */
async function aDryRun(): Promise<void> {
  const configFile = command.path('guard.yaml');
  const document = {
    ...{ apiVersion: 'nodewarden.dev/v1alpha1', kind: 'NodewardenGuardConfiguration', dryRun: true },
    kubernetes: { kubeconfig: writeGuardKubeconfig(api), outOfService: 'assume' },
    ...{ socket: command.path('guard.sock'), stateDirectory: command.path('state'), fencing: { templates: {} } },
  };
  fs.writeFileSync(configFile, JSON.stringify(document), { mode: 0o600 });
  const stop = new AbortController();
  const running = runGuard({ version: '0', configFile, complain: () => undefined }, stop.signal);
  const heard = (part: RegExp): void => {
    if (!api.stub.heard.some(({ path: url }) => part.test(url))) throw new Error(`${part} was not asked`);
  };
  await eventually(() => heard(/nodes\?.*watch=true/));
  await eventually(() => heard(/kube-node-lease\/leases\?/));
  await eventually(() => heard(/configmaps\?.*watch=true/));
  await eventually(() => expect(api.writes().some(({ method }) => method === 'PUT')).toBe(true));
  stop.abort();
  expect(await running).toBe(0);
}

async function everyWrite(): Promise<void> {
  const writes = createGuardWrites({ send: api.connection.send, namespace: NAMESPACE });
  const stored = await writes.putMap(`fencing-${ID}`, { a: 'b' }, null);
  await writes.putMap(`fencing-${ID}`, { a: 'c' }, stored.kind === 'stored' ? stored.version : '1');
  await writes.deleteRecord(ID, String(api.objects.get(`${MAPS}/fencing-${ID}`)?.metadata['resourceVersion']));
  const version = String(api.node('w1').metadata['resourceVersion']);
  await writes.putLease({ holder: 'x', transitions: 0, durationSeconds: 15, wallMs: 0, annotations: {} }, null);
  await writes.changeMarks({ name: 'w1', uid: W1.uid, version, taints: [] }, 'tell', ID);
  await writes.setFenced(W1, { message: 'off', wallMs: 0 });
  await writes.createEvent({ name: 'e', node: 'w1', reason: 'NodeFreed', type: 'Normal', message: '', wallMs: 0 });
}

describe('the Deployment', () => {
  const [config, deployment, budget] = documents('deployment.yaml');
  const spec = deployment?.spec as unknown as {
    replicas: number;
    template: {
      spec: {
        affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { topologyKey: string }[] } };
        containers: { args: string[]; securityContext: object }[];
        securityContext: object;
        serviceAccountName: string;
      };
    };
  };

  it('runs two guards on two machines, without root and without a writable root', () => {
    const pod = spec.template.spec;
    expect(spec.replicas).toBe(2);
    const [apart] = pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution;
    expect(apart?.topologyKey).toBe('kubernetes.io/hostname');
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    expect(pod.containers[0]?.securityContext).toEqual({
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'] },
    });
    expect(pod.serviceAccountName).toBe('nodewarden-guard');
    expect(budget).toMatchObject({ kind: 'PodDisruptionBudget', spec: { minAvailable: 1 } });
  });
  it('has a configuration without a mistake, in dry run', () => {
    const { problems, effective } = guardConfigOf(config?.data?.['guard.yaml'] ?? '', 'guard.yaml');
    expect(problems).toEqual([]);
    expect(effective).toMatchObject({ core: { dryRun: true }, kubernetes: { kubeconfig: 'in-cluster' } });
  });
});
