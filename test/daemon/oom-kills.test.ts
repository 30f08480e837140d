import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { valueOrNull } from '../../src/core/reading.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import type { RecordNote } from '../../src/ports.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { until, withScene } from '../lab/scene.ts';
import { MIB, noCgroups, openTestNode, type TestNode, type TestPod } from '../observe/a-node.ts';
import { clock, directory, running, until as untilReport, write } from './a-daemon.ts';

const BURST = 'perl -e \'my $x = "x" x (100 * 1024 * 1024)\'';
type Told = Extract<RecordNote, { kind: 'kernel-oom-kill' }>;

/** Other programs of the machine may be killed meanwhile: counts are at least so high. */
describe.skipIf(noCgroups !== null)(`kernel OOM kills while no agent runs [${noCgroups ?? 'root, cgroups'}]`, () => {
  let node: TestNode;
  let web: TestPod;
  beforeEach(async () => {
    node = await openTestNode(32 * MIB, 50);
    web = node.addPod('web');
    write(['evictionHard: { pid.available: "7" }']);
    const text = `apiVersion: v1\nkind: Pod\nmetadata: { name: web, annotations: { nodewarden.dev/cgroup: "${web.ref().path}" } }\nspec: { containers: [{ name: main }] }\n`;
    writeFileSync(join(directory, 'pods.d/web.yaml'), text, { mode: 0o644 });
  });
  afterEach(() => node.remove());

  const kept = (): string => join(directory, 'run/oom-kills.json');
  const toldIn = (stateDirectory: string): readonly Told[] =>
    [false, true].flatMap((dry) =>
      readRecord(stateDirectory, { dry }).entries.flatMap((entry) =>
        entry.kind === 'note' && entry.note.kind === 'kernel-oom-kill' ? [entry.note] : [],
      ),
    );
  const told = (): readonly Told[] => toldIn(join(directory, 'state'));
  const ofWeb = (): readonly Told[] => told().filter(({ pods }) => pods.includes('default/web'));
  /** A run of the agent from its start to an orderly stop. */
  const runOnce = async (body: () => void = () => undefined): Promise<void> => {
    const status = await running(async (report) => {
      await report();
      body();
    });
    expect(status).toBe(0);
  };

  it('are recorded once, by the next start, with the time since when no agent watched, and their pods', async () => {
    await runOnce();
    const fromMs = clock.monoMs();
    web.run(BURST);
    node.addPod('other').run(BURST);
    await running(async (report) => {
      await untilReport(report, ({ counts }) => counts.kernelOomKills >= 2);
    });
    expect(ofWeb()).toHaveLength(1);
    const [kill] = ofWeb();
    expect(kill?.count).toBeGreaterThanOrEqual(2);
    expect(kill?.unattributed).toBeGreaterThanOrEqual(1);
    expect(kill?.unwatchedSinceMs).toBeLessThanOrEqual(fromMs);
    expect(kill?.atMs).toBeGreaterThan(fromMs);
    await runOnce();
    expect(ofWeb()).toHaveLength(1);
  });

  it('are not told before the first start', async () => {
    web.run(BURST);
    await runOnce();
    await runOnce();
    expect(ofWeb()).toEqual([]);
  });

  it('are told since the boot by the first start of a boot, where an agent ran before', async () => {
    await runOnce();
    const record = join(directory, 'state/record.jsonl');
    writeFileSync(record, readFileSync(record, 'utf8').replaceAll(/"bootId":"[^"]*"/g, '"bootId":"the boot before"'));
    rmSync(join(directory, 'run'), { recursive: true });
    web.run(BURST);
    await runOnce();
    expect(ofWeb()).toMatchObject([{ unwatchedSinceMs: 0 }]);
  });

  it.each([
    ['is lost', () => rmSync(kept())],
    ['is damaged', () => writeFileSync(kept(), '{"schema":1}')],
    ['is of another boot', () => change(/"bootId":"[^"]*"/, '"bootId":"other"')],
    ['is above what the kernel counts', () => change(/"kills":\d+,"atMs"/, '"kills":9000000000,"atMs"')],
  ])('are not told if the kept count %s', async (_, spoil) => {
    await runOnce();
    spoil();
    web.run(BURST);
    await runOnce();
    expect(told().filter(({ unwatchedSinceMs }) => unwatchedSinceMs !== undefined)).toEqual([]);
  });
  function change(what: RegExp, to: string): void {
    const text = readFileSync(kept(), 'utf8');
    expect(text).toMatch(what);
    writeFileSync(kept(), text.replace(what, to));
  }

  it('are not told again of those that a dry run has recorded', async () => {
    await runOnce();
    write(['evictionHard: { pid.available: "7" }', 'dryRun: true']);
    await runOnce(() => web.run(BURST));
    expect(ofWeb()).toHaveLength(1);
    write(['evictionHard: { pid.available: "7" }']);
    await runOnce();
    expect(ofWeb()).toHaveLength(1);
  });

  it('are recorded after a crash, without those that were recorded before it', async () => {
    const spec = { pods: [{ name: 'job' }], config: ['evictionHard: { pid.available: "7" }'] };
    await withScene(spec, false, async ({ agent }) => {
      const { runtimeDirectory, stateDirectory } = agent.places;
      const [machine, file] = [createProcfs(), join(runtimeDirectory, 'oom-kills.json')];
      const counted = (): number => valueOrNull(machine.oomKills()) ?? 0;
      const recorded = (): number => toldIn(stateDirectory).reduce((sum, { count }) => sum + count, 0);
      await until('it keeps its count', () => existsSync(file) || null);
      const first: number = JSON.parse(readFileSync(file, 'utf8')).kills;
      web.run(BURST);
      await until('the kill is recorded, and so kept', () => {
        const { kills } = JSON.parse(readFileSync(file, 'utf8'));
        return (kills > first && recorded() === kills - first) || null;
      });
      await agent.crash();
      web.run(BURST);
      await agent.start();
      await until('all are recorded, each once', () => recorded() === counted() - first || null);
      expect(toldIn(stateDirectory).at(-1)?.unwatchedSinceMs).toBeGreaterThan(0);
      machine.close();
    });
  });
});
