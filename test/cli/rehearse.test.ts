import { mkdirSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import type { ObservedLook } from '../../src/daemon/observed-look.ts';
import { entryOf, sayEntry } from '../../src/record/entry.ts';
import { statusReport } from '../../src/serve/status.ts';
import { anObservation } from '../a.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { aContext, aVerdict, NO_SHUTDOWN } from '../serve/a-report.ts';
import { aCommand } from './a-command.ts';
import { ARMED, config, web } from './a-rehearsal.ts';

describe('nodewarden rehearse shutdown', () => {
  const command = aCommand();
  const run = (...args: readonly string[]) => command.run(['rehearse', 'shutdown', ...command.config(), ...args]);
  let fake: FakeSystemd | null = null;
  afterEach(async () => {
    delete process.env['DBUS_SYSTEM_BUS_ADDRESS'];
    await fake?.remove();
    fake = null;
  });

  async function serve(pods: readonly PodView[], given?: string): Promise<void> {
    const observation = anObservation(10_000, {}, { pods: known(pods) });
    const inhibitor = { ...NO_SHUTDOWN.inhibitor, lock: { ...ARMED, provenMs: 10_000 } };
    const context = aContext({ shutdown: { ...NO_SHUTDOWN, inhibitor, stopTimeoutMs: 90_000, secondTier: true } });
    const state = initialState('boot');
    const look: ObservedLook = {
      schema: 1,
      node: context.node,
      observation,
      config,
      state,
      decisions: [],
      reasons: [],
    };
    await command.serve({
      answer: () => statusReport({ observation, verdict: aVerdict(state), config, context }),
      observe: async () => given ?? JSON.stringify(look),
    });
  }

  it('reports that the daemon is not running, with status 3, and its usage, with status 2', async () => {
    expect(await run()).toEqual(command.notRunning());
    expect((await run('--now')).code).toBe(2);
  });

  it('exits with 3, not 1, if the daemon cannot be queried, and says why', async () => {
    await command.serve({ answer: () => ({ schema: 0 }) });
    const { code, out, err } = await run();
    expect([code, out]).toEqual([3, '']);
    expect(err).toBe('cannot query nodewarden: the agent runs another version; restart it\n');
  });

  it('reports that an incomplete look cannot be read, with status 3 and without a stack trace', async () => {
    await serve([], '{"schema":1,"node":{},"observation":{"pods":{"known":true,"value":7}}}');
    const { code, err } = await run();
    expect(code).toBe(3);
    expect(err).toMatch(/^cannot query nodewarden: its answer cannot be read .*\n$/);
  });

  it('exits with 0 if no pod is known not to finish, whatever is declared', async () => {
    await serve([web]);
    const { code, out } = await run('-o', 'json');
    expect([code, JSON.parse(out).cannotFinish]).toEqual([0, []]);
    await command.away();
    await serve([{ ...web, terminationGraceSeconds: 20 }]);
    const well = await run();
    expect([well.code, well.err]).toEqual([0, '']);
    expect(well.out).toMatch(/no pod is known to need more time than it gets \(1 pod\)\n$/);
  });

  it.skipIf(noHungMount !== null)(
    `answers without a record whose file system hangs [${noHungMount ?? 'root'}]`,
    async () => {
      await serve([web]);
      mkdirSync(command.path('state'));
      writeFileSync(command.path('config.yaml'), `stateDirectory: ${command.path('state')}\n`, { flag: 'a' });
      const hung = await mountHungFileSystem(command.path('state'));
      try {
        const { code, out, err } = await run('-o', 'json');
        expect([code, JSON.parse(out).cannotFinish]).toEqual([0, []]);
        expect(err).toMatch(
          /^not read: .*\/state: no answer within 2 s; the mount may hang, or the machine is very busy\n$/,
        );
      } finally {
        await hung.release();
      }
    },
  );

  it.skipIf(!hasDbusDaemon)(
    "uses the manifests' units, systemd's timeouts, and earlier stops from the record [needs dbus-daemon]",
    async () => {
      fake = await openFakeSystemd();
      process.env['DBUS_SYSTEM_BUS_ADDRESS'] = fake.daemon.address;
      const unit = { activeState: 'active', invocation: 1, controlGroup: '/x', loadState: 'loaded' };
      fake.units.set('web.service', { ...unit, stopUs: 25_000_000n });
      for (const name of ['pods.d', 'state']) mkdirSync(command.path(name), { mode: 0o755 });
      const more = `podManifests: ${command.path('pods.d')}\nstateDirectory: ${command.path('state')}\n`;
      writeFileSync(command.path('config.yaml'), more, { flag: 'a' });
      const manifest = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          name: 'web',
          namespace: 'shop',
          uid: web.uid,
          annotations: { 'nodewarden.dev/systemd-unit': 'web.service' },
        },
        spec: { containers: [{ name: 'main' }] },
      };
      writeFileSync(command.path('pods.d/web.json'), JSON.stringify(manifest), { mode: 0o644 });
      const { uid, namespace, name, qos, priority } = web;
      const victim = { uid, namespace, name, qos, priority };
      const decision: Decision = {
        id: 'b-1',
        atMs: 1_000,
        kind: 'stop-for-shutdown',
        victim,
        phase: 1,
        graceSeconds: 20,
      };
      const head = { atWallMs: 1_700_000_000_000, bootId: 'boot', dry: false };
      const outcome = { of: 'b-1', atMs: 4_000, kind: 'ended', via: 'stop-unit', releasedBytes: known(0) } as const;
      const entries = [
        entryOf(head, { kind: 'decision', decision, reasons: [] }),
        entryOf(head, { kind: 'outcome', outcome }),
      ];
      writeFileSync(command.path('state/record.jsonl'), entries.map(sayEntry).join(''));
      await serve([web]);
      const { code, out, err } = await run('-o', 'json');
      expect([code, err]).toEqual([0, '']);
      expect(JSON.parse(out).phases[0].pods).toEqual([
        {
          uid: 'uid-web',
          namespace: 'shop',
          name: 'web',
          priority: 0,
          graceSeconds: 20,
          ownGraceSeconds: 30,
          unit: 'web.service',
          stopTimeoutMs: 25_000,
          stopSteps: 1,
          observed: { stops: 1, endedMs: 3_000, unfinishedMs: null },
          toldAfterMs: 0,
          getsMs: 20_000,
          verdict: { kind: 'finishes', because: 'observed' },
        },
      ]);
      expect(fake.asked()).toEqual([]);
      // It took longer than it gets: that is known.
      const slow = { ...outcome, of: 'b-2', atMs: 23_000 };
      const later = [
        entryOf(head, { kind: 'decision', decision: { ...decision, id: 'b-2' }, reasons: [] }),
        entryOf(head, { kind: 'outcome', outcome: slow }),
      ];
      writeFileSync(command.path('state/record.jsonl'), [...entries, ...later].map(sayEntry).join(''));
      const again = await run('-o', 'json');
      expect([again.code, JSON.parse(again.out).cannotFinish]).toEqual([1, ['shop/web']]);
    },
  );
});
