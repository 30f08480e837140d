import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known, valueOrNull } from '../../src/core/reading.ts';
import { readBootId } from '../../src/host/clock.ts';
import { startWorkload, type Workload } from '../../src/host/process/workload.ts';
import { checkpointPath } from '../../src/kube/pods/checkpoint.ts';
import { type DecisionRecord, entryOf, joinDecisions, type RecordEntry, sayEntry } from '../../src/record/entry.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { pendingLinesPath } from '../../src/record/writing/pending-lines.ts';
import { stateFilePath } from '../../src/record/writing/state-file.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { aKubeletTree, anId, aUid } from '../kube/a-kubelet-tree.ts';
import { createAuthority, writeKubeconfig } from '../kube/certificates.ts';
import { aV1Pod, NODE } from '../kube/pod-store.ts';
import { type Heard, startStubApi } from '../kube/stub-api.ts';
import { ownAgent } from '../lab/agent.ts';
import { availableMiB, type Scene, until, withScene } from '../lab/scene.ts';
import { clock } from './a-daemon.ts';

const MIB = 1024 * 1024;
const boot = readBootId();

/** The one eviction in the record, once it has an outcome. */
const evictionIn = (stateDirectory: string): Promise<DecisionRecord> =>
  until('the outcome is recorded', () => {
    const { entries } = readRecord(stateDirectory);
    return (
      joinDecisions(entries).find(({ decision, outcomes }) => decision.kind === 'evict' && outcomes.length > 0) ?? null
    );
  });
const isEvidence = (entry: RecordEntry): boolean => entry.kind === 'note' && entry.note.kind === 'evidence';
const releasedBytes = ({ outcomes: [end] }: DecisionRecord): number | null =>
  end?.kind === 'ended' ? valueOrNull(end.releasedBytes) : null;

describe.skipIf(needsCgroups !== '' || !boot.known)(`a reclaim whose agent ends ${needsCgroups}`, () => {
  const reclaimsIn = ({ agent: { places } }: Scene): readonly DecisionRecord[] =>
    joinDecisions(readRecord(places.stateDirectory).entries).filter(({ decision }) => decision.kind === 'reclaim');
  const freed = ({ outcomes }: DecisionRecord) => outcomes.map((end) => (end.kind === 'reclaimed' ? end.freed : end));

  /** The record of the reclaim that runs as its agent ends, once the next agent has decided the next one. */
  const throughRestart = async (end: (scene: Scene) => Promise<void>): Promise<DecisionRecord> => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-reclaim-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const isOver = path.join(directory, 'over');
    const waiting = `until [ -e ${isOver} ]; do sleep 0.02; done`;
    const spec = {
      pods: [{ name: 'filler' }],
      nodefs: { sizeMiB: 64, inodes: 4_096 },
      config: [
        'evictionHard: { nodefs.available: "32Mi" }',
        `reclaimCommands: [{ signal: nodefs.available, command: [/bin/sh, -c, "${waiting}"], timeout: 60s }]`,
      ],
    };
    let first: DecisionRecord | undefined;
    await withScene(spec, false, async (scene) => {
      await scene.play('filler', `fill ${scene.directory('filler')} 40`);
      await until('the reclaim runs', () => reclaimsIn(scene)[0] ?? null);
      await until('its command runs', async () => (await scene.status()).act.kind === 'reclaiming' || null);
      await end(scene);
      await until('the agent has ended', () => (scene.agent.isRunning() ? null : true));
      await scene.agent.start();
      await until('it is decided again', () => reclaimsIn(scene)[1] ?? null);
      writeFileSync(isOver, '');
      first = await until('the first one has an outcome', () => {
        const [record] = reclaimsIn(scene);
        return record !== undefined && record.outcomes.length > 0 ? record : null;
      });
    });
    if (first === undefined) throw new Error('no reclaim');
    return first;
  };

  it('by SIGKILL is recorded with what it freed unknown, and is decided again', async () => {
    const first = await throughRestart(({ agent }) => agent.crash());
    expect(freed(first)).toMatchObject([
      { known: false, where: 'nodefs.available', detail: 'the agent ended before the reclaim was over' },
    ]);
  });

  it('by SIGTERM is recorded in the same way', async () => {
    const first = await throughRestart(async ({ agent }) => agent.signal('SIGTERM'));
    expect(freed(first)).toMatchObject([{ known: false }]);
  });

  it('keeps the outcome that was recorded before the state knew it', async () => {
    const first = await throughRestart(async (scene) => {
      const { agent } = scene;
      await agent.crash();
      const of = reclaimsIn(scene)[0]?.decision.id ?? '';
      const head = { atWallMs: Date.now(), bootId: boot.known ? boot.value : '', dry: false };
      const outcome = { of, atMs: clock.monoMs(), kind: 'reclaimed', freed: known(5 * MIB) } as const;
      const pending = pendingLinesPath(stateFilePath(agent.places.runtimeDirectory, false));
      appendFileSync(pending, sayEntry(entryOf(head, { kind: 'outcome', outcome })));
    });
    expect(freed(first)).toEqual([known(5 * MIB)]);
  });
});

describe.skipIf(needsCgroups !== '' || !boot.known)(`an eviction whose agent gets SIGKILL ${needsCgroups}`, () => {
  it('counts as freed what the victim used when it was first asked to stop, whatever it freed since', async () => {
    const spec = {
      pods: [
        { name: 'hog', graceSeconds: 30 },
        { name: 'other', annotations: { 'nodewarden.dev/evict-for': 'none' } },
      ],
      config: [
        'evictionSoft: { memory.available: "150Mi" }',
        'evictionSoftGracePeriod: { memory.available: "100ms" }',
        'evictionMaxPodGracePeriod: 4',
      ],
    };
    await withScene(spec, false, async (scene) => {
      const [hog, other] = [await scene.play('hog', 'stubborn'), await scene.play('other')];
      const fill = async (role: typeof hog) => role.write(`memory ${Math.round(await availableMiB(scene)) - 120}`);
      const freeMiB = await availableMiB(scene);
      await fill(hog);
      const recorded = () => readRecord(scene.agent.places.stateDirectory).entries;
      await until('it is told to end', () => recorded().some(isEvidence) || null);
      hog.write('memory 4');
      await until('it has freed nearly all', async () => ((await availableMiB(scene)) > freeMiB - 30 ? true : null));
      // The threshold is still met when the hog's time is over.
      await fill(other);
      await until('the other has filled it', async () => ((await availableMiB(scene)) < 150 ? true : null));
      await scene.agent.crash();
      await scene.agent.start();
      await until('the hog ends', () => hog.ended());
      expect(releasedBytes(await evictionIn(scene.agent.places.stateDirectory))).toBeGreaterThan(100 * MIB);
    });
  });

  /** An agent beside a kubelet whose pods have 300 MiB, with a pod that does not run yet. */
  const besideKubelet = async (act: (request: Heard) => void) => {
    if (mounts === null || !boot.known) throw new Error('no cgroups');
    const directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-killed-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const authority = createAuthority();
    onTestFinished(authority.remove);
    const agent = ownAgent(directory);
    const stub = await startStubApi(authority, (request) => {
      const { method, path: at, body } = request;
      if (method === 'GET') return null;
      act(request);
      if (method === 'DELETE') return { status: 200, body: { kind: 'Status', status: 'Success' } };
      return at.includes('/pods/') || at.startsWith('/api/v1/nodes/') ? { status: 200, body: body ?? {} } : null;
    });
    onTestFinished(stub.stop);
    Object.assign(stub.node, { status: { nodeInfo: { bootID: boot.value }, conditions: [] } });
    const tree = aKubeletTree(mounts, 'cgroupfs');
    const uid = aUid('a');
    const [app, later] = [anId('b'), anId('c')];
    const pod = tree.addPod('BestEffort', uid, app, later);
    const limit = mounts.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
    writeFileSync(`${mounts.memory}${tree.kubepods}/${limit}`, String(300 * MIB));
    const status = { containerStatuses: [{ name: 'main', containerID: `containerd://${app}` }] };
    stub.store.put(aV1Pod({ name: 'hog', uid, status, spec: { containers: [{ name: 'main' }] } }));
    const { places } = agent;
    writeFileSync(places.configFile, configOf(places, tree.cgroupRoot, writeKubeconfig(authority, stub.url)));
    await agent.start();
    onTestFinished(agent.close);
    const start = (id: string, mib: number): Workload => {
      const workload = startWorkload({
        argv: ['/usr/bin/perl', '-e', 'my $x = "x" x ($ARGV[0] << 20); sleep 1000', String(mib)],
        join: [`${mounts?.memory}${tree.containerIn(pod, id)}`],
        monoMs: clock.monoMs,
        line: () => undefined,
      });
      if (typeof workload === 'string') throw new Error(workload);
      onTestFinished(() => workload.kill('SIGKILL'));
      return workload;
    };
    const deletions = () =>
      stub.heard.filter(({ method, body }) => method === 'DELETE' && body?.['dryRun'] === undefined);
    return {
      agent,
      stub,
      deletions,
      hog: () => start(app, 220),
      again: () => start(later, 8),
    };
  };
  const deletionsIn = ({ rungs }: DecisionRecord): readonly string[] =>
    rungs.filter(({ act }) => act === 'delete').map(({ answer }) => answer);

  it('is recorded with the deletion that the earlier run sent, beside a kubelet', async () => {
    const killed: Promise<void>[] = [];
    // The agent dies while it waits for the answer to its first deletion.
    const { agent, deletions, ...pod } = await besideKubelet(({ method }) => {
      if (method === 'DELETE' && killed.length === 0) killed.push(agent.crash());
    });
    const hog = pod.hog();
    await until('the agent is killed', () => killed[0] ?? null);
    await agent.start();
    await until('the hog ends', () => hog.ended());
    const eviction = await evictionIn(agent.places.stateDirectory);
    const [earlier, ...later] = deletionsIn(eviction);
    expect(earlier).toBe('sent; the answer is not known');
    // The hog may end before they have arrived, or before they are answered.
    expect(later.length).toBeGreaterThanOrEqual(deletions().length - 1);
    for (const answer of later) expect(['accepted', 'sent; the answer is not known']).toContain(answer);
    // The answers, and what is done with a message that was kept for later, may come after the outcome.
    const acts = eviction.outcomes[0]?.rungs?.map(({ act }) => act);
    expect(acts).toContain('delete');
    expect(acts).toEqual(eviction.rungs.slice(0, acts?.length).map(({ act }) => act));
    // The soft threshold is met with 150 MiB in all pods.
    expect(releasedBytes(eviction)).toBeGreaterThan(140 * MIB);
  });

  it('has an unknown outcome if the answer to its deletion was lost, until the API server shows the pod', async () => {
    const killed: Promise<void>[] = [];
    const { agent, stub, ...pod } = await besideKubelet(({ method }) => {
      if (method === 'DELETE' && killed.length === 0) killed.push(agent.crash());
    });
    const hog = pod.hog();
    await until('the agent is killed', () => killed[0] ?? null);
    hog.kill('SIGKILL');
    await until('the hog ends', () => hog.ended());
    await stub.stop();
    await agent.start();
    expect((await evictionIn(agent.places.stateDirectory)).outcomes).toMatchObject([{ kind: 'unknown' }]);
    const events = () => stub.heard.filter(({ body }) => body?.['kind'] === 'Event' && body['reason'] === 'Evicted');
    expect(events()).toEqual([]);
    await stub.listen();
    await until('it is told', () => events()[0] ?? null);
    // The event may be sent before the outcome is recorded.
    const outcomes = await until('the outcome is known', async () => {
      const known = (await evictionIn(agent.places.stateDirectory)).outcomes;
      return known.length > 1 ? known : null;
    });
    expect(outcomes).toMatchObject([{ kind: 'unknown' }, { kind: 'ended', via: 'api' }]);
  });

  it('spares what the kubelet has started since, and is recorded with the deletion that the next run sends', async () => {
    const { agent, stub, deletions, ...pod } = await besideKubelet(() => undefined);
    const { stateDirectory } = agent.places;
    const checkpoint = checkpointPath(stateDirectory);
    await until(
      'it knows the pod',
      () => (existsSync(checkpoint) && readFileSync(checkpoint, 'utf8').includes('"hog"')) || null,
    );
    await stub.stop();
    const hog = pod.hog();
    await until('the hog ends', () => hog.ended());
    await agent.crash();
    const again = pod.again();
    await agent.start();
    await stub.listen();
    const recorded = await until('the deletion is recorded', () => {
      const { entries } = readRecord(stateDirectory);
      return joinDecisions(entries).find((record) => deletionsIn(record).includes('accepted')) ?? null;
    });
    expect(again.isAlive()).toBe(true);
    expect(recorded.outcomes).toMatchObject([{ kind: 'ended', via: expect.stringMatching(/kill/) }]);
    expect(deletionsIn(recorded)).toEqual([expect.stringContaining('is away'), 'accepted']);
    expect(deletions()).toHaveLength(1);
  });
});

function configOf(places: ReturnType<typeof ownAgent>['places'], cgroupRoot: string, kubeconfig: string): string {
  const lines = [
    'apiVersion: nodewarden.dev/v1alpha1',
    'kind: NodewardenConfiguration',
    'mode: kubelet',
    `cgroupRoot: ${cgroupRoot}`,
    `podManifests: ${places.manifests}`,
    `stateDirectory: ${places.stateDirectory}`,
    `runtimeDirectory: ${places.runtimeDirectory}`,
    `socket: ${places.socket}`,
    `nodefs: { path: ${places.stateDirectory} }`,
    `containerRuntimeEndpoint: unix://${places.stateDirectory}/no.sock`,
    'evictionHard: { memory.available: "100Mi" }',
    `kubernetes: { kubeconfig: ${kubeconfig}, nodeName: ${NODE} }`,
  ];
  return `${lines.join('\n')}\n`;
}
