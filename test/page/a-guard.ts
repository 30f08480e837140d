import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FencingRecord, Phase } from '../../src/core/guard/record.ts';
import { nodeKey, recordData } from '../../src/guard/records.ts';
import type { GuardLive } from '../../src/guard/shown.ts';
import { aGuardApi, aRecord, clock, type GuardApi, LEASES, writeGuardKubeconfig } from '../guard/a-guard-api.ts';
import { eventually } from '../kube/eventually.ts';
import { freePort } from '../serve/a-web.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/nodewarden.js', import.meta.url));
const NODE_LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
const OWN_LEASE = `${LEASES}/nodewarden-guard`;
const RENEW_MS = 2_000;
const ZONE = 'topology.kubernetes.io/zone';

export type ClusterNode = { readonly name: string; readonly uid: string; readonly zone: string };
export type PageGuard = {
  readonly api: GuardApi;
  readonly address: string;
  /** From now on, these nodes renew nothing. */
  readonly silence: (names: readonly string[]) => void;
  readonly live: () => Promise<GuardLive>;
  readonly start: () => void;
  readonly kill: () => Promise<void>;
  readonly close: () => Promise<void>;
};

/** The built guard with its page, and a stand-in for the API server whose nodes renew their leases. */
export async function openPageGuard(of: {
  readonly nodes: readonly ClusterNode[];
  readonly dryRun?: boolean;
  /** Who holds the lease, and renews it; null: nobody, so that this guard leads. */
  readonly leader?: string | null;
  readonly records?: readonly FencingRecord[];
}): Promise<PageGuard> {
  const { nodes, dryRun = false, leader = null, records = [] } = of;
  const api = await aGuardApi();
  const silent = new Set<string>();
  let round = 0;
  let isClosed = false;
  const renew = (): void => {
    if (isClosed) return;
    round += 1;
    for (const { name } of nodes) if (!silent.has(name)) putLease(api, name, round);
    // Given back by another one: it need not be watched for 15 s.
    const holder = { holderIdentity: leader, renewTime: new Date(clock.wallMs()).toISOString().replace('Z', '000Z') };
    const held = leader === null ? {} : { ...holder, leaseDurationSeconds: 15 };
    if (leader !== null || round === 1)
      api.put(OWN_LEASE, { metadata: { name: 'nodewarden-guard' }, spec: { leaseTransitions: 3, ...held } });
    clock.after(RENEW_MS, renew);
  };
  for (const node of nodes) putNode(api, node);
  for (const record of records) api.putMap(`fencing-${record.id}`, recordData(record));
  renew();

  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-page-'));
  const port = await freePort();
  const document = {
    ...{ apiVersion: 'nodewarden.dev/v1alpha1', kind: 'NodewardenGuardConfiguration', dryRun },
    kubernetes: { kubeconfig: writeGuardKubeconfig(api), outOfService: 'assume' },
    ...{ suspectAfter: '10s', deadAfter: '60s', settle: '30s', http: { listen: `127.0.0.1:${port}` } },
    ...{ socket: join(directory, 'guard.sock'), stateDirectory: join(directory, 'state') },
    fencing: { templates: {} },
  };
  const file = join(directory, 'guard.yaml');
  writeFileSync(file, JSON.stringify(document), { mode: 0o600 });
  const address = `http://127.0.0.1:${port}/`;
  let child: ChildProcess | null = null;
  const start = (): void => {
    child = spawn(process.execPath, [PROGRAM, 'guard', 'run', '--config', file], { stdio: 'ignore' });
  };
  const kill = async (): Promise<void> => {
    const ended = child;
    if (ended === null || ended.exitCode !== null) return;
    await new Promise((resolve) => {
      ended.once('exit', resolve);
      ended.kill('SIGKILL');
    });
  };
  const live = async (): Promise<GuardLive> => {
    const answer = await fetch(`${address}api/live`);
    if (answer.status !== 200) throw new Error(await answer.text());
    return (await answer.json()) as GuardLive;
  };
  start();
  await eventually(async () => {
    if ((await live()).nodesUnknown !== null) throw new Error('not yet listed');
  });
  return {
    ...{ api, address, live, start, kill },
    silence: (names) => {
      for (const name of names) silent.add(name);
    },
    close: async () => {
      isClosed = true;
      await kill();
      await api.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function putNode(api: GuardApi, { name, uid, zone }: ClusterNode): void {
  api.put(`/api/v1/nodes/${name}`, {
    kind: 'Node',
    metadata: { name, uid, labels: { [ZONE]: zone } },
    spec: {},
    status: {
      conditions: [{ type: 'Ready', status: 'True' }],
      // Of the loopback network: where no kubelet listens.
      addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
      daemonEndpoints: { kubeletEndpoint: { Port: 9 } },
      nodeInfo: { bootID: 'boot-1' },
    },
  });
}

function putLease(api: GuardApi, name: string, round: number): void {
  api.put(`${NODE_LEASES}/${name}`, {
    ...{ kind: 'Lease', metadata: { name }, spec: { renewTime: `t${round}`, leaseDurationSeconds: 5 } },
  });
}

/** A fencing of the node that began so long ago, with each phase and when it began, in s. */
export function aFencingOf(
  { name, uid }: ClusterNode,
  agoMs: number,
  steps: readonly (readonly [Phase, number])[],
  rest: Partial<FencingRecord> = {},
): FencingRecord {
  const beganMs = clock.wallMs() - agoMs;
  return aRecord({
    ...{ id: `${nodeKey(uid)}-1`, node: { name, uid, bootId: 'boot-1' }, epoch: 2, silentMs: 125_000 },
    ...{ offSent: ['1', '2'], onSent: ['1', '2'], onAttempt: 1, proof: { by: 'devices', level: 0 } },
    steps: steps.map(([phase, s]) => ({ phase, wallMs: beganMs + s * 1_000 })),
    phase: steps.at(-1)?.[0] ?? 'decided',
    ...rest,
  });
}
