import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sayValue } from '../../src/config/setting.ts';
import { createReload, type Loaded, loadToRun, withDryRun } from '../../src/daemon/reload.ts';
import { until } from '../../src/demo/cast.ts';
import { createLog } from '../../src/record/writing/log.ts';
import { clock, directory, file, write } from './a-daemon.ts';

function loadedNow(): Loaded {
  const loaded = loadToRun(file, () => {});
  if (loaded === null) throw new Error('not loaded');
  return loaded;
}

/** The reload of an agent whose parts were made of `loaded`, and what came of it. */
function reloading(loaded: Loaded, rest: Partial<Parameters<typeof createReload>[0]> = {}) {
  const applied: (readonly [Loaded, Loaded | null])[] = [];
  const told: string[] = [];
  const reload = createReload({
    clock,
    log: createLog('error', { writeLine: () => {} }),
    findings: { raise: ({ text }) => told.push(text), clear: (id) => told.push(`clear ${id}`), all: () => [] },
    configFile: file,
    dryRun: false,
    loaded,
    isRebuild: false,
    apply: (...given) => applied.push(given),
    ...rest,
  });
  return { reload, applied, told };
}

/** Of each configuration that was applied: thresholds and dry run in force, and whether other parts are to come. */
const saidOf = (applied: ReturnType<typeof reloading>['applied']) =>
  applied.map(([{ effective }, next]) => ({
    thresholds: effective.thresholds.map(({ value }) => sayValue(value)).join(),
    isDry: effective.dryRun,
    isNext: next !== null,
  }));

describe('a reload', () => {
  it('of a file that was read and is gone leaves what is in force, named or at the default path', () => {
    write(['evictionHard: { memory.available: "7Mi" }', 'dryRun: true']);
    const loaded = loadedNow();
    renameSync(file, join(directory, 'moved.yaml'));
    // Null: as an agent without --config, which has read the file at the default path.
    for (const configFile of [file, null]) {
      const { reload, applied, told } = reloading(loaded, { configFile });
      expect(applied).toEqual([]);
      expect(reload.last()).toMatchObject({ ok: false });
      expect(told).toEqual([
        `the configuration was not reloaded, and the running one stays in force: ${file}: was read before, and does not exist any more`,
      ]);
      reload.close();
    }
  });

  it('of a file that is there again takes it', () => {
    write(['evictionHard: { memory.available: "7Mi" }']);
    const loaded = loadedNow();
    rmSync(file);
    const { reload, applied } = reloading(loaded, { configFile: null });
    write(['evictionHard: { memory.available: "8Mi" }']);
    reload.now();
    reload.close();
    expect(applied.map(([{ effective }]) => effective.file)).toEqual([file]);
  });

  it('of a file whose imported one is gone leaves what is in force', () => {
    const kubelet = join(directory, 'kubelet.yaml');
    writeFileSync(kubelet, 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n', { mode: 0o600 });
    write([`kubeletConfig: ${kubelet}`]);
    const loaded = loadedNow();
    rmSync(kubelet);
    const { reload, applied } = reloading(loaded);
    reload.close();
    expect(applied).toEqual([]);
    expect(reload.last()?.text).toContain(`${kubelet} does not exist`);
  });

  it('ends what is said of a reclaim command that is no longer configured', () => {
    const command = (program: string, signal = 'nodefs.available') =>
      `{ signal: ${signal}, command: [${program}], timeout: 1s }`;
    const configured = (...commands: readonly string[]) =>
      write(['evictionHard: { nodefs.available: 5%, nodefs.inodesFree: 5% }', `reclaimCommands: [${commands.join()}]`]);
    configured(command('/bin/old'), command('/bin/kept'), command('/bin/kept', 'nodefs.inodesFree'));
    const said = ['nodefs.available//bin/old', 'nodefs.available//bin/kept', 'nodefs.inodesFree//bin/kept', 'runtime'];
    const all = ['config', ...said.map((of) => `reclaim/${of}`)].map((id) => ({ id, text: id }));
    const cleared: string[] = [];
    const findings = { raise: () => undefined, clear: (id: string) => void cleared.push(id), all: () => all };
    const { reload } = reloading(loadedNow(), { findings });
    configured(command('/bin/new'), command('/bin/kept'));
    reload.now();
    reload.close();
    expect(cleared.filter((id) => id.startsWith('reclaim/'))).toEqual([
      'reclaim/nodefs.available//bin/old',
      'reclaim/nodefs.inodesFree//bin/kept',
    ]);
  });

  it('notices a change that was written before it was watched', () => {
    write(['evictionHard: { memory.available: "7Mi" }']);
    const loaded = loadedNow();
    write(['evictionHard: { memory.available: "8Mi" }']);
    const { reload, applied } = reloading(loaded);
    reload.close();
    expect(saidOf(applied)).toEqual([{ thresholds: '8Mi', isDry: false, isNext: false }]);
  });
});

describe('a configuration that needs other parts', () => {
  const is = (thresholds: string, isDry: boolean, isNext: boolean) => ({ thresholds, isDry, isNext });
  const one = (...more: readonly string[]) => write(['evictionHard: { memory.available: "7Mi" }', ...more]);
  const other = (...more: readonly string[]) =>
    write(['evictionHard: { memory.available: "8Mi" }', 'cgroupRoot: /other', ...more]);

  it('is not in force before they are there, nor is any part of it, and is said to wait', () => {
    one();
    const { reload, applied, told } = reloading(loadedNow());
    other();
    reload.now();
    reload.close();
    expect(saidOf(applied)).toEqual([is('7Mi', false, true)]);
    expect(applied[0]?.[1]?.effective.cgroupRoot).toBe('/other');
    expect(reload.last()).toMatchObject({ ok: true, isPending: true });
    expect(reload.last()?.text).toBe(
      `the configuration ${file} was read; it comes into force once no eviction, reclaim or shutdown is in progress`,
    );
    expect(told).toEqual([]);
  });

  it('is in force, kept and said to be so once they are', async () => {
    other();
    mkdirSync(join(directory, 'state'));
    const kept = join(directory, 'state', 'config-last-good.json');
    const { reload, told } = reloading(loadedNow(), { isRebuild: true });
    reload.close();
    expect(reload.last()).toMatchObject({ ok: true, text: `the configuration ${file} is in force` });
    expect(reload.last()).not.toHaveProperty('isPending');
    expect(told).toContain('clear config');
    await until(clock, () => existsSync(kept), 10_000);
    expect(readFileSync(kept, 'utf8')).toContain('cgroupRoot: /other');
  });

  it('can be taken back before, and then other parts are not needed', () => {
    one();
    const { reload, applied } = reloading(loadedNow());
    other();
    reload.now();
    write(['evictionHard: { memory.available: "9Mi" }']);
    reload.now();
    reload.close();
    expect(saidOf(applied)).toEqual([is('7Mi', false, true), is('9Mi', false, false)]);
    expect(reload.last()).not.toHaveProperty('isPending');
  });

  it('does not come if the file is refused before, as is said; only its dry run does', () => {
    const refusedAfter = (...edits: readonly (() => void)[]) => {
      one();
      const { reload, applied, told } = reloading(loadedNow());
      for (const edit of [...edits, () => other('dryRun: maybe')]) {
        edit();
        reload.now();
      }
      reload.close();
      expect(told.at(-1)).toContain('the running one stays in force');
      return applied.at(-1)?.map((loaded) => loaded && [loaded.effective.cgroupRoot, loaded.effective.dryRun]);
    };
    const dry = () => other('dryRun: true');
    expect(refusedAfter(other)).toEqual([['/', false], null]);
    expect(refusedAfter(dry)).toEqual([
      ['/', true],
      ['/other', true],
    ]);
    // What was live is made anew.
    expect(refusedAfter(dry, other)).toEqual([
      ['/', true],
      ['/', true],
    ]);
  });

  it('ends what is live at once if it is a dry run, and what was live is then made anew', () => {
    one();
    const { reload, applied } = reloading(loadedNow());
    other('dryRun: true');
    reload.now();
    one();
    reload.now();
    reload.close();
    expect(saidOf(applied)).toEqual([is('7Mi', true, true), is('7Mi', true, true)]);
    expect(applied[1]?.[1]?.effective.dryRun).toBe(false);
  });

  it('that is refused asks for no parts, not even for a dry run of the former one', () => {
    one();
    const { reload, applied, told } = reloading(loadedNow());
    other('dryRun: true');
    reload.now();
    const next = applied[0]?.[1];
    if (next) reload.refuse(next, 'it hangs');
    reload.close();
    expect(saidOf(applied)).toEqual([is('7Mi', true, true)]);
    expect(told.join()).toContain('the former one stays in force, in dry run until the next reload: it hangs');
    expect(reload.last()).toMatchObject({ ok: false });
  });

  it('arms nothing before, and never against --dry-run', () => {
    one('dryRun: true');
    const { reload, applied } = reloading(loadedNow());
    one();
    reload.now();
    reload.close();
    expect(saidOf(applied)).toEqual([is('7Mi', true, true)]);

    const loaded = withDryRun(loadedNow(), true);
    const always = reloading(loaded, { dryRun: true });
    write(['evictionHard: { memory.available: "9Mi" }']);
    always.reload.now();
    always.reload.close();
    expect(saidOf(always.applied)).toEqual([is('9Mi', true, false)]);
  });
});
