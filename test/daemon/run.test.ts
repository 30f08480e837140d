import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sayValue } from '../../src/config/setting.ts';
import { decide } from '../../src/core/decide.ts';
import type { ObservedLook } from '../../src/daemon/answers.ts';
import { createReload, loadToRun } from '../../src/daemon/reload.ts';
import { runDaemon } from '../../src/daemon/run.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { RecordEntry } from '../../src/record/entry.ts';
import { createLog } from '../../src/record/writing/log.ts';
import { askDaemon } from '../../src/serve/ask.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { MIB, noCgroups, openTestNode } from '../observe/a-node.ts';

const clock = createClock();
const DBUS = { destination: 'org.freedesktop.DBus', path: '/org/freedesktop/DBus', interface: 'org.freedesktop.DBus' };
const DEADLINE_MS = 30_000;
let directory: string;
let file: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-daemon-'));
  file = join(directory, 'config.yaml');
  mkdirSync(join(directory, 'pods.d'), { mode: 0o755 });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function write(lines: readonly string[]): void {
  const text = [
    'apiVersion: nodewarden.dev/v1alpha1',
    'kind: NodewardenConfiguration',
    `podManifests: ${directory}/pods.d`,
    `stateDirectory: ${directory}/state`,
    `runtimeDirectory: ${directory}/run`,
    `socket: ${directory}/run/nodewarden.sock`,
    `nodefs: { path: ${directory} }`,
    ...lines,
  ];
  writeFileSync(file, `${text.join('\n')}\n`);
  chmodSync(file, 0o644);
}

/** The daemon with what it reports, until the test says that it may stop. */
async function running(
  body: (report: () => Promise<StatusReport>) => Promise<void>,
  onEntry: (entry: RecordEntry) => void = () => {},
  complain: (line: string) => void = () => {},
): Promise<0 | 1 | 2> {
  const stop = new AbortController();
  const ready = new Promise<void>((resolve) => {
    ended = runDaemon(
      { configFile: file, dryRun: false, log: 'none', onReady: resolve, onEntry, complain },
      stop.signal,
    );
  });
  await Promise.race([ready, sleep(clock, DEADLINE_MS)]);
  try {
    await body(async () => {
      const asked = await askDaemon(`${directory}/run/nodewarden.sock`, { ask: 'status' }, clock);
      if (asked.kind !== 'answer') throw new Error(`no status: ${asked.kind}`);
      return asked.answer as StatusReport;
    });
  } finally {
    stop.abort();
  }
  return ended;
}
let ended: Promise<0 | 1 | 2>;

async function until(
  report: () => Promise<StatusReport>,
  holds: (report: StatusReport) => boolean,
): Promise<StatusReport> {
  const endMs = clock.monoMs() + DEADLINE_MS;
  for (;;) {
    const now = await report().catch(() => null);
    if (now !== null && holds(now)) return now;
    if (clock.monoMs() > endMs) throw new Error(`never so: ${JSON.stringify(now)}`);
    await sleep(clock, 50);
  }
}
const pidLimit = (report: StatusReport): number | null | undefined =>
  report.signals.find(({ signal }) => signal === 'pid.available')?.thresholds[0]?.limit;

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
    `records a kill by the kernel also when it stops right after [${noCgroups ?? 'root, cgroups'}]`,
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
    `records a kill by the kernel also while its parts are made anew [${noCgroups ?? 'root, cgroups'}]`,
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

  it('lets no second one act beside it', async () => {
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

  it('lets no second dry run write the same record', async () => {
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

  it('does not start on directories that others can write, and says what to do', async () => {
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

  it.each(['run', 'state'])('makes its directory %s again when somebody removes it, and says so', async (name) => {
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
      await until(report, () => entries().length >= (name === 'run' ? 4 : 2));
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

  it('ends when its directory was removed and another agent has it by then', async () => {
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

  it('gives the next look with every pod to who asks, without waiting for its own time', async () => {
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

  it('takes up a changed file by itself, and a bad one changes nothing but what it says', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async (report) => {
      write(['evictionHard: { pid.available: "8" }']);
      expect((await until(report, (now) => pidLimit(now) === 8)).config.lastReload).toMatchObject({ ok: true });
      write(['evictionHard: { pid.avialable: "9" }']);
      const refused = await until(report, (now) => now.config.lastReload?.ok === false);
      expect(refused.config.lastReload?.text).toContain('config.yaml:8:17');
      expect(refused.findings.map(({ id }) => id)).toContain('config');
      expect(pidLimit(refused)).toBe(8);
      write(['evictionHard: { pid.available: "9" }']);
      const mended = await until(report, (now) => pidLimit(now) === 9);
      expect(mended.findings.map(({ id }) => id)).not.toContain('config');
    });
  });

  it('reloads on SIGHUP', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async (report) => {
      const before = await report();
      process.kill(process.pid, 'SIGHUP');
      await until(report, (now) => now.config.lastReload !== null && before.config.lastReload === null);
    });
  });

  it('goes into dry run and out of it by its file, without a restart', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async (report) => {
      write(['evictionHard: { pid.available: "7" }', 'dryRun: true']);
      const dry = await until(report, (now) => now.node.dryRun);
      expect(dry.node.pid).toBe(process.pid);
      write(['evictionHard: { pid.available: "7" }']);
      await until(report, (now) => !now.node.dryRun);
    });
  });

  it('hears of a change that was written before anybody watched', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    const loaded = loadToRun(file, () => {});
    write(['evictionHard: { pid.available: "8" }']);
    const applied: unknown[] = [];
    if (loaded === null) throw new Error('not loaded');
    const reload = createReload({
      clock,
      log: createLog('error', { writeLine: () => {} }),
      findings: { raise: () => {}, clear: () => {}, all: () => [] },
      configFile: file,
      loaded,
      apply: ({ effective }) => applied.push(effective.thresholds.map(({ value }) => sayValue(value))),
    });
    reload.close();
    expect(applied).toEqual([['8']]);
  });

  it('answers for the configuration in force, whatever is written to its directory while it changes over', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async (report) => {
      for (let i = 0; i < 12; i++) {
        const isDry = i % 2 === 0;
        write(['evictionHard: { pid.available: "7" }', ...(isDry ? ['dryRun: true'] : [])]);
        // The agent looks at its directory 0.2 s after the last change there: at any moment of the change-over.
        await sleep(clock, 20 * i);
        writeFileSync(`${directory}/run/touched`, '');
        await until(report, (now) => now.node.dryRun === isDry);
      }
    });
  });

  it.skipIf(!hasDbusDaemon)(
    'has one connection to the bus, also with another configuration [needs dbus-daemon]',
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

  it('starts with the last good configuration where its file is bad by then, and says so until that is mended', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    const kept = join(directory, 'state', 'config-last-good.json');
    await running(async (report) => {
      await until(report, () => existsSync(kept));
      write(['evictionHard: { pid.available: "9" }']);
      await until(report, (now) => pidLimit(now) === 9);
      await until(report, () => readFileSync(kept, 'utf8').includes('\\"9\\"'));
    });
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    write(['evictionHard: { pid.available: "many" }', 'podManifest: x']);
    const said: string[] = [];
    const status = await running(
      async (report) => {
        const first = await report();
        expect(pidLimit(first)).toBe(9);
        const text = `the last good one (of`;
        expect(first.findings.map((finding) => finding.text).join()).toContain(text);
        expect(first.config.lastReload).toMatchObject({ ok: false, text: expect.stringContaining(text) });
        expect(said.join()).toContain(`kept in ${kept}) is in force: ${file}:8:`);
        write(['evictionHard: { pid.available: "8" }']);
        const mended = await until(report, (now) => pidLimit(now) === 8);
        expect(mended.findings).toEqual([]);
      },
      undefined,
      (line) => said.push(line),
    );
    expect(status).toBe(0);
    // Of another file, or where others could have written it, it is no good one.
    write(['evictionHard: { pid.available: "many" }']);
    chmodSync(kept, 0o666);
    const start = () => runDaemon({ configFile: file, dryRun: false, log: 'none' }, AbortSignal.abort());
    expect(await start()).toBe(2);
  });

  it('does not start with a bad file (2), nor in kubelet mode, which is not implemented (1)', async () => {
    const said: string[] = [];
    const start = () =>
      runDaemon(
        { configFile: file, dryRun: false, log: 'none', complain: (line) => said.push(line) },
        AbortSignal.abort(),
      );
    write(['evictionHard: { pid.available: "-1" }', 'podManifest: x']);
    expect(await start()).toBe(2);
    expect(said).toHaveLength(2);
    write(['mode: kubelet', 'kubernetes: { kubeconfig: /etc/kubernetes/kubelet.conf }']);
    said.length = 0;
    expect(await start()).toBe(1);
    expect(said.join()).toContain('kubelet mode is not implemented');
  });
});
