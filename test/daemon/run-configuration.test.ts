import { chmodSync, existsSync, mkdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runDaemon } from '../../src/daemon/run.ts';
import { sleep } from '../../src/host/clock.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { clock, directory, file, pidLimit, running, until, write } from './a-daemon.ts';

describe('the configuration of the daemon', () => {
  it('follows a changed file by itself; an invalid one only causes messages', async () => {
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

  it('switches dry run on and off through its file, without a restart, and notes so in both records', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    const notesIn = (dry: boolean) =>
      readRecord(`${directory}/state`, { dry }).entries.flatMap((entry) =>
        entry.kind === 'note' ? [entry.note.kind] : [],
      );
    await running(async (report) => {
      await until(report, () => notesIn(false).includes('started'));
      write(['evictionHard: { pid.available: "7" }', 'dryRun: true']);
      const dry = await until(report, (now) => now.node.dryRun && now.config.lastReload?.isPending === undefined);
      expect(dry.node.pid).toBe(process.pid);
      expect(dry.config.lastReload?.text).toBe(`the configuration ${file} is in force`);
      await until(report, () => notesIn(true).includes('started'));
      write(['evictionHard: { pid.available: "7" }']);
      await until(report, (now) => !now.node.dryRun && notesIn(false).filter((kind) => kind === 'started').length > 1);
    });
    const isOfRun = (kind: string) => kind === 'started' || kind === 'stopped';
    expect(notesIn(true).filter(isOfRun)).toEqual(['started', 'stopped']);
    expect(notesIn(false).filter(isOfRun)).toEqual(['started', 'stopped', 'started', 'stopped']);
  });

  it.each([
    ['live', []],
    ['in dry run', ['dryRun: true']],
  ])(
    'runs on with the former one if a directory of the new one cannot be used, %s, until it can',
    async (how, more) => {
      const other = join(directory, 'other');
      mkdirSync(other);
      chmodSync(other, 0o777);
      const edit = () => {
        write(['evictionHard: { pid.available: "8" }', ...more]);
        const text = readFileSync(file, 'utf8');
        writeFileSync(file, text.replace(/stateDirectory: .*/, `stateDirectory: ${other}`));
      };
      write(['evictionHard: { pid.available: "7" }']);
      const status = await running(async (report) => {
        edit();
        const refused = await until(report, (now) => now.config.lastReload?.ok === false);
        expect([pidLimit(refused), refused.node.dryRun]).toEqual([7, how !== 'live']);
        const isDry = how === 'live' ? '' : ', in dry run';
        expect(refused.findings.map(({ text }) => text).join()).toContain(
          `the configuration was read but cannot be used, and the former one stays in force${isDry} until the next reload: ${other} `,
        );
        chmodSync(other, 0o755);
        process.kill(process.pid, 'SIGHUP');
        const usable = await until(report, (now) => pidLimit(now) === 8);
        expect(usable.findings).toEqual([]);
      });
      expect(status).toBe(0);
    },
  );

  it.skipIf(noHungMount !== null)(
    `keeps its pods if the directory of other manifests hangs, until it answers [${noHungMount ?? 'root'}]`,
    async () => {
      const other = join(directory, 'other');
      mkdirSync(other, { mode: 0o755 });
      const { release } = await mountHungFileSystem(other);
      const edit = (pids: number) => {
        write([`evictionHard: { pid.available: "${pids}" }`]);
        writeFileSync(file, readFileSync(file, 'utf8').replace(/podManifests: .*/, `podManifests: ${other}`));
      };
      write(['evictionHard: { pid.available: "7" }']);
      try {
        await running(async (report) => {
          edit(8);
          const refused = await until(report, (now) => now.config.lastReload?.ok === false);
          expect([pidLimit(refused), refused.pods.known]).toEqual([7, true]);
          expect(refused.findings.map(({ text }) => text)).toEqual([
            `the configuration was read but cannot be used, and the former one stays in force until the next reload: podManifests: ${other}: no answer within 2 s; the mount may hang, or the machine is very busy. It is asked again, every 10 minutes at most`,
          ]);
          await release();
          expect((await until(report, (now) => pidLimit(now) === 8)).findings).toEqual([]);
        });
      } finally {
        await release();
      }
    },
  );

  it('keeps its runtime directory, in which it remembers what it holds, until it is restarted', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    await running(async (report) => {
      write(['evictionHard: { pid.available: "8" }']);
      const text = readFileSync(file, 'utf8');
      writeFileSync(file, text.replace(/runtimeDirectory: .*/, `runtimeDirectory: ${directory}/other`));
      const refused = await until(report, (now) => now.config.lastReload?.ok === false);
      expect(refused.config.lastReload?.text).toContain(`runtimeDirectory ${directory}/other needs a restart`);
      expect(pidLimit(refused)).toBe(7);
    });
    expect(existsSync(`${directory}/other`)).toBe(false);
  });

  it('answers for the configuration in force, whatever is written to its directory during the change', async () => {
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

  it('starts with the last good configuration if its file is invalid, and says so until it is fixed', async () => {
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

  it('keeps the good configuration once there is room for it', async () => {
    write(['evictionHard: { pid.available: "7" }']);
    const kept = join(directory, 'state', 'config-last-good.json');
    mkdirSync(kept, { recursive: true, mode: 0o750 });
    await running(async (report) => {
      await report();
      await sleep(clock, 2_500);
      rmdirSync(kept);
      await until(report, () => existsSync(kept) && statSync(kept).isFile());
    });
  });

  it('does not start with an invalid file (2), nor in mode kubelet without credentials (1)', async () => {
    const said: string[] = [];
    const start = () =>
      runDaemon(
        { configFile: file, dryRun: false, log: 'none', complain: (line) => said.push(line) },
        AbortSignal.abort(),
      );
    write(['evictionHard: { pid.available: "-1" }', 'podManifest: x']);
    expect(await start()).toBe(2);
    expect(said).toHaveLength(2);
    writeFileSync(file, 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n', { mode: 0o600 });
    said.length = 0;
    expect(await start()).toBe(1);
    expect(said.join()).toContain('kubernetes.kubeconfig');
  });
});
