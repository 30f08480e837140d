import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import type { ObservedLook } from '../../src/daemon/observed-look.ts';
import { runDaemon } from '../../src/daemon/run.ts';
import { askDaemon } from '../../src/serve/ask.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { MIB, noCgroups, openTestNode } from '../observe/a-node.ts';
import { clock, DEADLINE_MS, directory, file, pidLimit, running, until, write } from './a-daemon.ts';

const DBUS = { destination: 'org.freedesktop.DBus', path: '/org/freedesktop/DBus', interface: 'org.freedesktop.DBus' };

describe('the daemon', () => {
  it('observes, answers, and stops cleanly', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    const status = await running(async (report) => {
      const first = await report();
      expect(pidLimit(first)).toBe(7);
      expect(first.signals[0]).toMatchObject({ signal: 'memory.available', unknown: null });
      expect(first.act).toEqual({ kind: 'idle' });
    });
    expect(status).toBe(0);
  });

  it.skipIf(noCgroups !== null)(
    `records a kernel OOM kill even if it stops right afterwards [${noCgroups ?? 'root, cgroups'}]`,
    async () => {
      const node = await openTestNode(32 * MIB, 50);
      try {
        const hog = node.addPod('hog');
        write(['evictionHard: { pid.available: "7" }']);
        const kills = (): string[] =>
          readFileSync(`${directory}/state/record.jsonl`, 'utf8').match(/"kernel-oom-kill"/g) ?? [];
        await running(async (report) => {
          await report();
          hog.run('perl -e \'my $x = "x" x (100 * 1024 * 1024)\'');
        });
        expect(kills()).not.toEqual([]);
      } finally {
        await node.remove();
      }
    },
  );

  it.skipIf(noCgroups !== null)(
    `records a kernel OOM kill even while its parts are rebuilt [${noCgroups ?? 'root, cgroups'}]`,
    async () => {
      const node = await openTestNode(32 * MIB, 50);
      try {
        const hog = node.addPod('hog');
        write(['evictionHard: { pid.available: "7" }']);
        let isHit = false;
        let told = 0;
        await running(
          async (report) => {
            await report();
            // What has no such directory is found, and recorded, while the new parts are made.
            const other = readFileSync(file, 'utf8').replace('/pods.d', '/other.d');
            writeFileSync(file, other);
            await vi.waitFor(() => expect(isHit && told > 0).toBe(true), DEADLINE_MS);
          },
          (entry) => {
            if (entry.kind !== 'note') return;
            if (isHit && entry.note.kind === 'kernel-oom-kill') told++;
            if (isHit || entry.note.kind !== 'finding' || entry.note.finding.id !== 'manifests') return;
            hog.run('perl -e \'my $x = "x" x (100 * 1024 * 1024)\'');
            isHit = true;
          },
        );
      } finally {
        await node.remove();
      }
    },
  );

  it.skipIf(needsCgroups !== '')(
    `is ready without the cgroup of cgroupRoot, which systemd removes while it is empty, and observes it later ${needsCgroups}`,
    async () => {
      const root = `/nw-later-${process.pid}`;
      write([`cgroupRoot: ${root}`]);
      const directories = [mounts?.memory, mounts?.pids].map((controller) => `${controller}${root}`);
      const beganMs = clock.monoMs();
      try {
        await running(async (report) => {
          expect(clock.monoMs() - beganMs).toBeLessThan(DEADLINE_MS);
          const isUnknown = ({ findings }: StatusReport): boolean =>
            findings.some(({ id }) => id === 'signal-unknown/memory.available');
          const first = await until(report, isUnknown);
          expect(JSON.stringify(first.findings)).toContain(`has no cgroup ${root}`);
          for (const made of directories) mkdirSync(made, { recursive: true });
          await until(report, (now) => !isUnknown(now));
        });
      } finally {
        for (const made of directories) if (existsSync(made)) rmdirSync(made);
      }
    },
    60_000,
  );

  it('names the pods of manifests that do not run, and warns in status of what the configuration means', async () => {
    write(['evictionHard: { memory.available: "1Mi", pid.available: "7" }']);
    const declare = (name: string, cgroup: string): void => {
      const text = `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, annotations: { nodewarden.dev/cgroup: ${cgroup} } }\nspec: { containers: [{ name: main }] }\n`;
      writeFileSync(join(directory, `pods.d/${name}.yaml`), text, { mode: 0o644 });
    };
    declare('web', 'nodewarden-test-absent');
    declare('one', 'nodewarden-test-shared');
    declare('two', 'nodewarden-test-shared');
    await running(async (report) => {
      const { pods, warnings } = await report();
      expect(pods).toMatchObject({ known: true, order: [], notRunning: ['default/one', 'default/web'] });
      // It may run: its manifest is refused.
      expect(pods).toMatchObject({ notObserved: ['default/two'] });
      expect(warnings.join()).toContain("memory.available 1Mi: the kernel's OOM killer acts first");
    });
  });

  it('refuses a second one that acts beside it', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async () => {
      const said: string[] = [];
      const options = { configFile: file, log: 'none', complain: (line: string) => void said.push(line) } as const;
      const never = new AbortController();
      expect(await runDaemon({ ...options, dryRun: false }, never.signal)).toBe(1);
      expect(said.join()).toContain('another nodewarden is running');
      const dry = new AbortController();
      const isReady = (): void => dry.abort();
      expect(await runDaemon({ ...options, dryRun: true, onReady: isReady }, dry.signal)).toBe(0);
    });
  });

  it('refuses a second dry run that would write the same record', async () => {
    write(['evictionHard: { pid.available: "7" }', 'dryRun: true']);
    await running(async () => {
      const said: string[] = [];
      const complain = (line: string): void => void said.push(line);
      const stop = new AbortController();
      const isReady = (): void => stop.abort();
      const options = { configFile: file, log: 'none', complain, dryRun: true, onReady: isReady } as const;
      expect(await runDaemon(options, stop.signal)).toBe(1);
      expect(said.join()).toContain('another dry run is running');
    });
  });

  it('does not start with directories that others can write, and says what to do', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    mkdirSync(join(directory, 'run'));
    writeFileSync(join(directory, 'run', 'state.json'), '{}');
    chmodSync(join(directory, 'run', 'state.json'), 0o666);
    const said: string[] = [];
    const complain = (line: string): void => void said.push(line);
    const start = () => runDaemon({ configFile: file, dryRun: false, log: 'none', complain }, AbortSignal.abort());
    expect(await start()).toBe(1);
    expect(said.join()).toContain(`${directory}/run/state.json belongs to user`);
    expect(said.join()).toContain(`has mode 0666`);
    expect(said.join()).toContain(`chmod go-w ${directory}/run/state.json`);
    rmSync(join(directory, 'run', 'state.json'));
    mkdirSync(join(directory, 'state'));
    chmodSync(join(directory, 'state'), 0o777);
    expect(await start()).toBe(1);
    expect(said.at(-1)).toContain(`${directory}/state belongs to user`);
  });

  it.each(['run', 'state'])('recreates its directory %s if somebody removes it, and says so', async (name) => {
    write(['evictionHard: { pid.available: "7" }']);
    const own = join(directory, name);
    const entries = (): readonly string[] =>
      existsSync(own)
        ? readdirSync(own)
            .filter((entry) => !entry.endsWith('-tmp'))
            .toSorted()
        : [];
    await running(async (report) => {
      await report();
      await until(report, () => entries().length >= (name === 'run' ? 5 : 2));
      const before = entries();
      const { mode } = statSync(own);
      for (let times = 1; times <= 3; times++) {
        rmSync(own, { recursive: true });
        const said = times === 1 ? 'was removed while the agent ran (at' : `(${times} times, last at`;
        const told = await until(report, ({ findings }) => findings.some(({ text }) => text.includes(said)));
        expect(told.findings.map(({ text }) => text).join()).toContain(
          `${own}, or a file in it, ${times === 1 ? '' : 'was removed'}`,
        );
        await until(report, () => entries().join() === before.join());
        expect(statSync(own).mode).toBe(mode);
      }
      if (name === 'state') expect(readFileSync(join(own, 'record.jsonl'), 'utf8')).toContain('"kind":"started"');
    });
  });

  it('ends if its directory was removed and another agent has taken it', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    const said: string[] = [];
    const options = { configFile: file, dryRun: false, log: 'none' } as const;
    const stop = new AbortController();
    const ended = runDaemon(
      {
        ...options,
        complain: (line) => void said.push(line),
        onReady: () => {
          // As of pid 1, which runs since the boot.
          const start = readFileSync('/proc/1/stat', 'latin1').split(') ')[1]?.split(' ')[19];
          const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
          rmSync(join(directory, 'run'), { recursive: true });
          mkdirSync(join(directory, 'run'), { mode: 0o750 });
          writeFileSync(join(directory, 'run', 'lock'), `${boot} 1 ${start}\n`, { mode: 0o640 });
        },
      },
      stop.signal,
    );
    expect(await ended).toBe(1);
    expect(said.join()).toContain('its directory was removed and another nodewarden (process 1) has');
  });

  it('gives a reader the next look with every pod, without waiting for the usual time', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async () => {
      const looks = [];
      for (let i = 0; i < 2; i++) {
        const asked = await askDaemon(`${directory}/run/nodewarden.sock`, { ask: 'observe' }, clock);
        if (asked.kind !== 'answer') throw new Error(`no look: ${JSON.stringify(asked)}`);
        looks.push(asked.answer as ObservedLook);
      }
      const [first, second] = looks;
      expect(first).toMatchObject({ schema: 1, node: { pid: process.pid, mode: 'standalone' } });
      expect(first?.observation.pods).toEqual({ known: true, value: [] });
      // The second one was decided with what the first left behind.
      expect(second?.state.lastLookMs).toBeGreaterThanOrEqual(first?.observation.atMs ?? Number.NaN);
      const { state, observation, config } = second ?? {};
      if (state === undefined || observation === undefined || config === undefined) throw new Error('no second look');
      expect(decide(state, observation, config)).toMatchObject({
        decisions: second?.decisions,
        reasons: second?.reasons,
      });
    });
  });

  it.skipIf(!hasDbusDaemon)(
    'has one connection to the bus, even after a change of configuration [needs dbus-daemon]',
    async () => {
      let subscribed = 0;
      const fake = await openFakeSystemd((member) => {
        if (member === 'Subscribe') subscribed += 1;
        return null;
      });
      try {
        const addresses = async (): Promise<number> => {
          const names = await fake.bus.call({ ...DBUS, member: 'ListNames' });
          return names.known && Array.isArray(names.value[0])
            ? names.value[0].filter((name) => `${name}`[0] === ':').length
            : 0;
        };
        // The fake's own, which is on its way.
        await vi.waitFor(() => expect(subscribed).toBe(1));
        const before = await addresses();
        const subscribedBefore = subscribed;
        vi.stubEnv('DBUS_SYSTEM_BUS_ADDRESS', fake.daemon.address);
        write(['evictionHard: { pid.available: "7" }']);
        await running(async (report) => {
          write(['evictionHard: { pid.available: "7" }', 'dryRun: true']);
          await until(report, (now) => now.node.dryRun && subscribed > subscribedBefore);
          expect([await addresses(), subscribed]).toEqual([before + 1, subscribedBefore + 1]);
        });
      } finally {
        vi.unstubAllEnvs();
        await fake.remove();
      }
    },
  );
});
