import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadGuard } from '../../src/config/guard/load.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { type CheckNeeds, checkGuard } from '../../src/guard/check.ts';
import { guardRights } from '../../src/guard/rights.ts';
import type { ApiAnswer, ApiRequest } from '../../src/kube/api/connection.ts';
import { aBench } from './an-agent.ts';

type Node = { readonly name: string; readonly labels?: object };
type World = {
  readonly nodes?: readonly Node[];
  readonly minor?: string;
  /** `verb resource` of what the guard may not do. */
  readonly denied?: readonly string[];
  readonly allowed?: readonly string[];
  readonly devices?: unknown;
  readonly agents?: CheckNeeds['agents'];
};

const answer = (status: number, body: unknown): ApiAnswer => ({ kind: 'answer', status, body, retryAfterMs: null });
const nodeOf = ({ name, labels = {} }: Node) => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: '1', labels },
  status: { conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }], nodeInfo: { bootID: 'b' } },
});
const NEVER = [
  'delete pods',
  'create pods/eviction',
  'create pods/exec',
  'delete nodes',
  'get nodes/proxy',
  'get secrets',
];
const NEVER_EITHER = [...NEVER, 'delete volumeattachments'];

function anApi({ nodes = [{ name: 'w1' }], minor = '28', denied = [], allowed = [], devices }: World) {
  return {
    get: async (path: string): Promise<ApiAnswer> => {
      if (path === '/version') return answer(200, { major: '1', minor });
      if (path.startsWith('/api/v1/nodes?'))
        return answer(200, { metadata: { resourceVersion: '1' }, items: nodes.map(nodeOf) });
      if (devices === undefined) return answer(404, { kind: 'Status' });
      return answer(200, { metadata: { resourceVersion: '1' }, data: { devices: JSON.stringify(devices) } });
    },
    send: async ({ body }: ApiRequest): Promise<ApiAnswer> => {
      const { verb, resource, subresource } = (body as { spec: { resourceAttributes: { [name: string]: string } } })
        .spec.resourceAttributes;
      const right = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
      const isNever = NEVER_EITHER.includes(right) && !allowed.includes(right);
      return answer(201, { status: { allowed: !denied.includes(right) && !isNever } });
    },
  };
}

const SAYS = `
case $(value plug) in
  w1|w2) echo "Status: ON" ;;
  w3) echo "Status: OFF"; exit 2 ;;
  *) echo "ipmitool: not found" >&2; exit 1 ;;
esac
`;

async function check(world: World, more = '', only: readonly string[] = [], outOfService = 'detect') {
  const bench = aBench({ fence_a: SAYS });
  const file = join(bench.directory, 'guard.yaml');
  const text = `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenGuardConfiguration
dryRun: ${more.includes('dryRun') ? 'true' : 'false'}
${more.replace('dryRun', '')}
kubernetes: { kubeconfig: /k, outOfService: ${outOfService} }
fencing:
  templates: { a: { agent: fence_a, proof: power, parameters: { plug: "{node}" } } }
  nodes: { gone: { power: [[{ template: a }]] } }
  default: { power: [[{ template: a }]] }
`;
  writeFileSync(file, text, { mode: 0o600 });
  const { effective, problems } = await loadGuard(file, async () => unknown('not-asked', 'fence_a', ''));
  if (effective === null) throw new Error(JSON.stringify(problems));
  const { devices, isKeptKnown, findings } = await checkGuard({
    api: anApi(world),
    agents: world.agents ?? bench.agents,
    effective,
    only,
  });
  return { devices, isKeptKnown, findings, codes: findings.map(({ kind, code }) => `${kind} ${code}`) };
}
const GONE = 'warning not-in-cluster';

describe('guard check', () => {
  it('asks the devices of all nodes that may be fenced for their status', async () => {
    const control = { name: 'c1', labels: { 'node-role.kubernetes.io/control-plane': '' } };
    const { devices, codes } = await check({ nodes: [{ name: 'w1' }, { name: 'w2' }, control] });
    expect(devices).toMatchObject([
      { node: 'w1', level: 1, agent: 'fence_a', says: 'on', detail: '', exposedTo: [], isNodeReady: true },
      { node: 'w2', level: 1, says: 'on' },
    ]);
    expect(codes).toEqual([GONE]);
  });

  it('asks those of the named nodes alone', async () => {
    const { devices, codes } = await check({ nodes: [{ name: 'w1' }, { name: 'w2' }] }, '', ['w2', 'w9']);
    expect(devices.map(({ node }) => node)).toEqual(['w2']);
    expect(codes).toEqual(['blocking no-such-node']);
  });

  it('finds a device that says off of a node that is Ready', async () => {
    const { codes } = await check({ nodes: [{ name: 'w3' }] });
    expect(codes).toEqual([GONE, 'blocking wrong-device']);
  });

  it('finds a device that does not answer, and the program that its agent lacks', async () => {
    const { findings } = await check({ nodes: [{ name: 'w4' }] });
    expect(findings.at(-1)).toMatchObject({ kind: 'blocking', code: 'device', mend: 'apt-get install ipmitool' });
  });

  it('knows what the guard remembers of a device', async () => {
    const row = { says: 'on', wallMs: 1, contradicted: { why: 'life-after-proof', wallMs: 2 }, rehearsedWallMs: 3 };
    const devices = { 'uid-w1': { 'fence_a plug=w1': row } };
    const checked = await check({ devices });
    const key = checked.devices[0]?.method ?? '';
    const known = await check({ devices: { 'uid-w1': { [key]: row } } });
    expect(known.devices).toMatchObject([{ rehearsedWallMs: 3 }]);
    expect(known.codes).toEqual([GONE, 'blocking contradicted']);
  });

  it('says so if it is not known what the guard remembers of them', async () => {
    const { findings, codes, isKeptKnown } = await check({
      devices: { 'uid-w1': { x: { says: 'reboot', wallMs: 1 } } },
    });
    expect([codes, isKeptKnown]).toEqual([[GONE, 'blocking kept'], false]);
    expect(findings.at(-1)?.text).toContain('is not known: somebody has changed the ConfigMap guard-devices');
    expect((await check({})).isKeptKnown).toBe(true);
  });

  it('asks the devices of a large cluster, few of them at a time', async () => {
    let asking = 0;
    let most = 0;
    const exposure: CheckNeeds['agents']['exposure'] = async () => {
      asking += 1;
      most = Math.max(most, asking);
      await new Promise((resolve) => setTimeout(resolve, 1));
      asking -= 1;
      return { power: known('on'), exposed: [], begunMs: 0, endedMs: 0 };
    };
    const nodes = Array.from({ length: 1_100 }, (_, i) => ({ name: `w${i}` }));
    const { devices } = await check({ nodes, agents: { exposure } });
    expect(devices.map(({ node }) => node)).toEqual(nodes.map(({ name }) => name));
    expect(most).toBeLessThan(200);
  });

  it('asks for each right that it needs, and names the rule that would give a missing one', async () => {
    const { findings } = await check({ denied: ['patch nodes'] });
    expect(findings[0]).toMatchObject({
      kind: 'blocking',
      code: 'right',
      mend: "in ClusterRole nodewarden-guard: - { apiGroups: [''], resources: [nodes], verbs: [patch] }",
    });
    const needed = guardRights('guards').map(({ attributes: { verb, resource } }) => `${verb} ${resource}`);
    const missing = await check({ denied: needed });
    expect(missing.codes.filter((code) => code === 'blocking right')).toHaveLength(
      needed.filter((right) => right !== 'patch nodes').length + 1,
    );
  });

  it('lets a dry run begin without the rights to write', async () => {
    expect((await check({ denied: ['patch nodes'] }, 'dryRun')).codes).toEqual(['warning right', GONE]);
    expect((await check({ denied: ['list nodes'] }, 'dryRun')).codes).toEqual(['blocking right', GONE]);
  });

  it.each(NEVER_EITHER)('finds that it may %s, which it never does', async (right) => {
    expect((await check({ allowed: [right] })).codes).toEqual(['warning right-too-much', GONE]);
  });

  it('refuses a server that frees nothing, unless somebody knows better', async () => {
    expect((await check({ minor: '25' })).codes).toEqual(['blocking out-of-service', GONE]);
    expect((await check({ minor: '' })).codes).toEqual(['blocking out-of-service', GONE]);
    expect((await check({ minor: '25' }, '', [], 'assume')).codes).toEqual([GONE]);
    expect((await check({ minor: '' }, '', [], 'assume')).codes).toEqual([GONE]);
  });
});
