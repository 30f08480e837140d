import { writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { aGuardApi, type GuardApi, LEASES, withAuthority, writeGuardKubeconfig } from '../guard/a-guard-api.ts';
import { eventually } from '../kube/eventually.ts';
import { freePort } from '../serve/a-web.ts';
import { aCommand } from './a-command.ts';

withAuthority();
const command = aCommand();
let api: GuardApi;
beforeEach(async () => {
  api = await aGuardApi();
});
afterEach(() => api.close());

function aConfig(rest: object = {}): string {
  const file = command.path('guard.yaml');
  const document = {
    ...{ apiVersion: 'nodewarden.dev/v1alpha1', kind: 'NodewardenGuardConfiguration', dryRun: true },
    kubernetes: { kubeconfig: writeGuardKubeconfig(api), outOfService: 'assume' },
    ...{ socket: command.path('guard.sock'), stateDirectory: command.path('state'), fencing: { templates: {} } },
    ...rest,
  };
  writeFileSync(file, JSON.stringify(document), { mode: 0o600 });
  return file;
}
const holder = () =>
  (api.objects.get(`${LEASES}/nodewarden-guard`)?.spec as { holderIdentity?: string } | undefined)?.holderIdentity;

describe('guard run', () => {
  it('does not start with a configuration that has mistakes, and names them all', async () => {
    const { code, err } = await command.run(['guard', 'run', '--config', aConfig({ suspectAfter: 'soon', dryRun: 1 })]);
    expect(code).toBe(2);
    expect(err).toContain('dryRun: ');
    expect(err).toContain('suspectAfter: ');
    expect(api.writes()).toEqual([]);
  });

  it('leads, answers status and explain, writes nothing but its lease, and gives that back', async () => {
    api.putNode({ name: 'w1', uid: '00000000-0000-4000-8000-000000000001', bootId: 'boot-1' });
    api.put('/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/w1', {
      ...{ kind: 'Lease', metadata: { name: 'w1' }, spec: { renewTime: 't1', leaseDurationSeconds: 40 } },
    });
    // Given back by another one: it need not be watched for 15 s.
    api.put(`${LEASES}/nodewarden-guard`, { metadata: { name: 'nodewarden-guard' }, spec: { leaseTransitions: 3 } });
    const port = await freePort();
    const file = aConfig({ http: { listen: `127.0.0.1:${port}` } });
    const running = command.start(['guard', 'run', '--config', file]);
    await eventually(() => expect(holder()).toMatch(/./));
    await eventually(async () => {
      const { code, out } = await command.run(['guard', 'status', '--config', file, '-o', 'json']);
      expect(code).toBe(0);
      expect(JSON.parse(out)).toMatchObject({ dryRun: true, leader: { isLeader: true, holder: holder() } });
    });
    // Until it has listed the nodes, it says so.
    await eventually(async () => {
      const { code, out, err } = await command.run(['guard', 'explain', 'w1', '--config', file]);
      expect(err).not.toContain('knows no node');
      expect({ code, out }).toEqual({
        code: 0,
        out: expect.stringContaining('not fenced: gate self: it decides nothing new'),
      });
    });
    expect((await command.run(['guard', 'explain', 'w9', '--config', file])).code).toBe(2);
    const { code, out } = await command.run(['guard', 'capture', '--config', file]);
    expect({ code, nodes: out.split('nodes:')[1] }).toEqual({ code: 0, nodes: expect.stringContaining('name: w1') });
    writeFileSync(command.path('now.yaml'), out);
    expect((await command.run(['guard', 'simulate', command.path('now.yaml')])).code).toBe(0);
    const hour = await command.run(['guard', 'capture', '--since', '1h', '--config', file]);
    expect({ code: hour.code, out: hour.out }).toEqual({
      code: 0,
      out: expect.stringMatching(/^# What a guard saw from 20.*\n(#.*\n)*# It begins when this guard started, .*\n/),
    });
    writeFileSync(command.path('hour.yaml'), hour.out);
    expect((await command.run(['guard', 'simulate', command.path('hour.yaml')])).code).toBe(0);
    expect((await command.run(['guard', 'capture', '--since', 'soon', '--config', file])).code).toBe(2);
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(metrics).toMatch(/^nodewarden_guard_leader 1$/m);
    expect(metrics).toMatch(/^nodewarden_guard_nodes\{class="new"\} 1$/m);
    expect(metrics).toMatch(/^nodewarden_guard_fencings_total\{result="proven"\} 0$/m);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    running.kill('SIGTERM');
    expect((await running.ended).code).toBe(0);
    expect(holder()).toBeUndefined();
    expect(api.writes().filter(({ path }) => !path.startsWith(LEASES))).toEqual([]);
  });

  it('is not armed against an API server that frees nothing, and says what to do', async () => {
    api.stub.fault(/^\/version$/, { kind: 'status', status: 200, body: { major: '1', minor: '20' } }, 1_000);
    const kubernetes = { kubeconfig: writeGuardKubeconfig(api) };
    const { code, err } = await command.run(['guard', 'run', '--config', aConfig({ kubernetes, dryRun: false })]);
    expect(code).toBe(1);
    expect(err).toContain('outOfService: assume');
    expect(api.writes()).toEqual([]);
  });
});

describe('guard status', () => {
  it('says that no guard runs here, and how to start one', async () => {
    const file = aConfig();
    const { code, err } = await command.run(['guard', 'status', '--config', file]);
    expect(code).toBe(3);
    expect(err).toContain(`nodewarden guard run --config ${file}`);
  });
});
