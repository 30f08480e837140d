import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { PastHold } from '../../src/core/guard/record.ts';
import { stateData } from '../../src/guard/kept.ts';
import { recordData } from '../../src/guard/records.ts';
import { aGuardApi, aRecord, type GuardApi, ID, withAuthority, writeGuardKubeconfig } from '../guard/a-guard-api.ts';
import { aCommand } from './a-command.ts';

withAuthority();
const command = aCommand();
let api: GuardApi;
beforeEach(async () => {
  api = await aGuardApi();
});
afterEach(() => api.close());

const AT = 1_764_000_000_000;
const past: readonly PastHold[] = [
  { what: 'kubelet-answers', scope: { kind: 'nodes', nodes: ['w1'] }, fromWallMs: AT + 60_000, untilWallMs: null },
  { what: 'cluster', scope: { kind: 'cluster', group: 'workers' }, fromWallMs: AT, untilWallMs: AT + 90_000 },
];
const history = (...args: readonly string[]) =>
  command.run(['guard', 'history', ...args, '--kubeconfig', writeGuardKubeconfig(api)]);

describe('guard history', () => {
  it('shows the phases of a fencing, when its node was free, and what was held back', async () => {
    const steps = (['decided', 'off-sent', 'proving', 'proven', 'tainted', 'untainting', 'closed'] as const).map(
      (phase, at) => ({ phase, wallMs: AT + at * 10_000 }),
    );
    api.putMap(`fencing-${ID}`, recordData(aRecord({ phase: 'closed', steps, silentMs: 125_000 })));
    api.putMap('guard-state', stateData({ paused: null, holds: [], past }));
    const { code, out, err } = await history();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toContain('silent for 2m5s before; free 2m55s after its last sign of life');
    expect(out).toContain('    +50s  no taint of the guard is to stay on it');
    expect(out.split('held back\n')[1]).toBe(
      '  2025-11-24 16:00:00 UTC     1m30s  cluster: too many nodes are silent\n' +
        '  2025-11-24 16:01:00 UTC    no end  w1: its kubelet answers\n' +
        '  no end: it lasts, or ended while no guard led, or one in dry run, which stores nothing: see nodewarden guard status\n',
    );
    const json = JSON.parse((await history('w1', '-o', 'json')).out);
    expect(json).toMatchObject({ schema: 1, fencings: [{ id: ID }], holds: [{ what: 'kubelet-answers' }] });
    expect((await history('w2')).out).toBe(
      'No fencings of w2 in the records of nodewarden-guard. Of a dry run: --local.\n',
    );
  });

  it('says of what ended while nobody recorded it how long it lasted at most', async () => {
    const [open] = past;
    const over = { ...open, untilWallMs: AT + 7_260_000, isAtMost: true } as const;
    api.putMap('guard-state', stateData({ paused: null, holds: [], past: [over as (typeof past)[number]] }));
    expect((await history()).out.split('held back\n')[1]).toBe(
      '  2025-11-24 16:01:00 UTC  at most 2h0m0s  w1: its kubelet answers\n',
    );
  });

  it('says of the steps before the word of a person what they were', async () => {
    const phases = ['decided', 'off-sent', 'proving', 'failed', 'stuck', 'proving', 'proven'] as const;
    const steps = phases.map((phase, at) => ({ phase, wallMs: AT + at * 10_000 }));
    const proof = { by: 'person', name: 'ann' } as const;
    api.putMap(`fencing-${ID}`, recordData(aRecord({ phase: 'proven', steps, proof })));
    const { out } = await history();
    expect(out).toContain('+20s  the devices are asked for proof');
    expect(out).toContain('+50s  a last look before the word of a person counts');
    expect(out).toContain('+1m0s  off, as a person says; no device proved it');
  });

  it('shows when each pod, volume and successor was seen, and for how long no member ran', async () => {
    const steps = (['decided', 'tainted'] as const).map((phase, at) => ({ phase, wallMs: AT + at * 10_000 }));
    const pod = { namespace: 'shop', uid: 'u', isMember: true, goneWallMs: AT + 30_000, readyWallMs: AT + 45_000 };
    const freed = {
      pods: [
        { ...pod, name: 'db-0' },
        { ...pod, name: 'db-1', readyWallMs: null },
        { ...pod, name: 'web-x', isMember: false, readyWallMs: null, goneWallMs: null },
      ],
      volumes: [{ name: 'va', volume: 'pv-1', goneWallMs: AT + 32_000 }],
    };
    api.putMap(`fencing-${ID}`, recordData(aRecord({ phase: 'tainted', steps, silentMs: 125_000, freed })));
    const { out } = await history();
    expect(out.slice(out.indexOf('  shop/db-0'))).toBe(
      '  shop/db-0: gone +30s, its successor Ready +45s: 2m50s without it\n' +
        '  shop/db-1: gone +30s, its successor not seen Ready\n' +
        '  shop/web-x: not seen gone\n' +
        '  volume pv-1: detached +32s\n',
    );
  });

  it('says of what a new leader found gone that it was so by then, and gives no more than the most', async () => {
    const phases = ['decided', 'tainted', 'untainting'] as const;
    const steps = phases.map((phase, at) => ({ phase, wallMs: AT + at * 10_000 }));
    const pod = { namespace: 'shop', name: 'db-0', uid: 'u', isMember: true, goneWallMs: AT + 9_000 };
    const freed = {
      pods: [{ ...pod, isGoneBy: true, readyWallMs: AT + 45_000, isReadyBy: true }] as const,
      volumes: [{ name: 'va', volume: 'pv-1', goneWallMs: AT + 9_000, isGoneBy: true }] as const,
    };
    api.putMap(`fencing-${ID}`, recordData(aRecord({ phase: 'untainting', steps, silentMs: 125_000, freed })));
    const { out } = await history();
    expect(out).toContain('; free at most 2m25s after its last sign of life\n');
    expect(out).toContain('  shop/db-0: gone by +9s, its successor Ready by +45s: at most 2m50s without it\n');
    expect(out).toContain('  volume pv-1: detached by +9s\n');
  });

  it('gives no total of a node that was not heard before it was fenced', async () => {
    const phases = ['decided', 'tainted', 'untainting', 'closed'] as const;
    const steps = phases.map((phase, at) => ({ phase, wallMs: AT + at * 10_000 }));
    const pod = { namespace: 'shop', name: 'db-0', uid: 'u', isMember: true, goneWallMs: AT + 30_000 };
    const freed = { pods: [{ ...pod, readyWallMs: AT + 45_000 }], volumes: [] };
    const silence = { silentMs: 125_000, wasHeard: false };
    api.putMap(`fencing-${ID}`, recordData(aRecord({ phase: 'closed', steps, freed, ...silence })));
    const { out } = await history();
    expect(out).toContain('silent for at least 2m5s before\n');
    expect(out).toContain('\n  shop/db-0: gone +30s, its successor Ready +45s\n');
  });

  it('says of a record that an earlier version wrote that it does not tell what was gone when', async () => {
    const steps = (['decided', 'tainted'] as const).map((phase, at) => ({ phase, wallMs: AT + at * 10_000 }));
    const { freed: _, wasHeard: __, ...old } = aRecord({ phase: 'tainted', steps });
    api.putMap(`fencing-${ID}`, { record: JSON.stringify(old) });
    expect((await history()).out).toContain(
      '\n  what was gone when is not known: what was to go was not read, or an earlier version wrote the record\n',
    );
  });

  it('says why the records cannot be read, with status 1', async () => {
    const kubeconfig = command.path('no-such-file');
    const { code, out, err } = await command.run(['guard', 'history', '--kubeconfig', kubeconfig]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain(`cannot list the ConfigMaps of nodewarden-guard with ${kubeconfig}: `);
  });

  it('reads with the ServiceAccount of its pod if there is no kubeconfig', async () => {
    vi.stubEnv('HOME', mkdtempSync(join(tmpdir(), 'nodewarden-home-')));
    vi.stubEnv('KUBECONFIG', '');
    const asked = async () => (await command.run(['guard', 'history'])).err;
    expect(await asked()).toContain('/.kube/config');
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '127.0.0.1');
    vi.stubEnv('KUBERNETES_SERVICE_PORT', '1');
    expect(await asked()).toContain('/var/run/secrets/kubernetes.io/serviceaccount');
    vi.unstubAllEnvs();
  });
});
