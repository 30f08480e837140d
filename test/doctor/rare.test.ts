import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { known, type Reading, unknown, valueOrNull } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import type { Facts } from '../../src/doctor/facts.ts';
import { lookAround } from '../../src/doctor/look.ts';
import { lookAtPods } from '../../src/doctor/look-pods.ts';
import { CHECKS, doctorReport } from '../../src/doctor/report.ts';
import { openMemory } from '../../src/host/cgroup/cgroup-memory.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { readSharedMemory } from '../../src/host/memory/shared-memory.ts';
import { hasSysResource } from '../../src/host/own/capabilities.ts';
import { findKubelet } from '../../src/host/process/kubelet-process.ts';
import { findOomDaemons } from '../../src/host/process/oom-daemons.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { createLogindDropIn } from '../../src/host/systemd/logind-drop-in.ts';
import { createSystemd } from '../../src/host/systemd/systemd.ts';
import type { Finding } from '../../src/ports.ts';
import { statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation } from '../a.ts';
import { makeCgroup, mounts, needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { clock, limitMemory } from '../host/test-cgroup.ts';
import { aTree } from '../host/tree.ts';
import { aContext, aVerdict } from '../serve/a-report.ts';
import { aDoctor, saidOf } from './a-doctor.ts';

const isRoot = process.getuid?.() === 0;
const MIB = 1024 ** 2;
const FIXTURES = path.resolve(import.meta.dirname, '../fixtures');
/** Another version than the agent's in `aContext`. */
const HERE = { atWallMs: 0, node: 'node-1', version: '9.9.9', nodeVersion: '20.20.2' };

/** Checks that no ordinary machine fires: each judges what was looked at here, with one part of another machine in it. */
describe('nodewarden doctor on unusual machines', () => {
  const doctor = aDoctor();
  const { configure, manifest, path: at } = doctor;
  beforeEach(() => configure());

  const look = (): Promise<Facts> => lookAround(at('config.yaml'), clock);
  const says = (facts: Facts, code: string) => saidOf(doctorReport(facts, HERE), code);
  const withHost = (facts: Facts, host: Partial<Facts['host']>): Facts => ({
    ...facts,
    host: { ...facts.host, ...host },
  });
  const serving = (...findings: readonly Finding[]): Promise<void> => {
    const parts = { observation: anObservation(0, {}), verdict: aVerdict(initialState('boot')), config: aConfig([]) };
    const report = statusReport({ ...parts, context: aContext({ findings }) });
    return doctor.serve({ answer: () => report });
  };

  it('reports paths that do not exist, missing swap, and a kernel without stall figures', async () => {
    configure(
      `nodefs: { path: ${at('none')} }`,
      'evictionHard: { memory.available: 1Mi, swap.available: 10% }',
      'evictionStall: { memory: { full: 30%, for: 10s, belowAvailable: 25% } }',
    );
    const facts = await look();
    expect(says(facts, 'path-missing')).toMatchObject([
      { text: expect.stringContaining(`${at('none')} does not exist`) },
    ]);
    const sizes = { ...facts.host.sizes, swapBytes: 0, hasMemoryPressure: false };
    const { warnings } = loadConfig(at('config.yaml'), sizes);
    const other = { ...withHost(facts, { sizes }), warnings };
    expect(says(other, 'swap-off')).toMatchObject([{ text: expect.stringContaining('this host has no swap') }]);
    expect(says(other, 'psi-off')).toMatchObject([{ text: expect.stringContaining('evictionStall') }]);
  });

  it("says whether the kernel's OOM killer acts first, with the command that shows where", async () => {
    configure('evictionHard: { memory.available: 100Mi, pid.available: 10% }');
    const facts = await look();
    const judged = (reserveBytes: number) => {
      const beyondReach = known({ reserveBytes, kernelBytes: 30 * MIB, hugePagesBytes: 0 });
      const sizes = { ...facts.host.sizes, beyondReach };
      const { warnings } = loadConfig(at('config.yaml'), sizes);
      return { ...withHost(facts, { sizes }), warnings };
    };
    expect(says(judged(80 * MIB), 'kernel-first')).toMatchObject([
      {
        kind: 'warning',
        text: expect.stringContaining('110 MiB (80 MiB that the kernel keeps free'),
        mend: expect.stringContaining('config check'),
      },
    ]);
    expect(says(judged(10 * MIB), 'kernel-first')).toEqual([]);
    expect(doctorReport(judged(10 * MIB), HERE).fine).toContainEqual({
      code: 'kernel-first',
      text: expect.stringContaining('no process can get 40 MiB'),
    });
  });

  it('reports the findings of the running agent: its version, its shutdown, its scores, and the rest', async () => {
    configure('shutdownGracePeriod: 30s', 'shutdownGracePeriodCriticalPods: 10s');
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    await serving(
      { id: 'shutdown-not-armed', text: 'the shutdown is not armed: logind refuses' },
      { id: 'oom-score-adj', text: 'default/web: 3 processes have another value' },
      { id: 'something-new', text: 'something that no check knows' },
    );
    const facts = await look();
    expect(says(facts, 'agent-version')).toMatchObject([{ text: 'the running agent is 0.1.0, this command is 9.9.9' }]);
    expect(says(facts, 'shutdown-not-armed')).toMatchObject([{ text: expect.stringContaining('logind refuses') }]);
    expect(says(facts, 'oom-score-adj')).toMatchObject([{ text: expect.stringContaining('default/web: 3') }]);
    expect(says(facts, 'agent-finding').map(({ text }) => text)).toEqual(['something that no check knows']);
  });

  it('reports that nothing can be measured without cgroups, and what is missing without the pids controller or a boot ID', async () => {
    const facts = await look();
    const mountinfo = 'proc/self/mountinfo';
    const of = (line: string, controllers = ''): Reading<never> | Facts['host']['mounts'] =>
      findCgroupMounts(aTree({ [mountinfo]: line, 'sys/fs/cgroup/cgroup.controllers': controllers }));
    const none = of('20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n');
    expect(says(withHost(facts, { mounts: none }), 'no-memory-controller')).toMatchObject([{ kind: 'blocking' }]);
    const v2 = '35 31 0:32 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n';
    expect(says(withHost(facts, { mounts: of(v2, 'cpu memory\n') }), 'no-pids-controller')).toMatchObject([
      { text: expect.stringContaining('no pids controller') },
    ]);
    const bootId = unknown('absent', '/proc/sys/kernel/random/boot_id', 'no such file');
    expect(says(withHost(facts, { bootId }), 'boot-id')).toMatchObject([
      { kind: 'blocking', text: '/proc/sys/kernel/random/boot_id: no such file' },
    ]);
  });

  it.skipIf(!isRoot)(
    'advises to stop no service that may run more than another out-of-memory daemon [needs root]',
    async () => {
      const proc = aTree({
        '100/comm': 'earlyoom\n',
        '100/cgroup': '0::/system.slice/supervisor.service\n',
        '200/comm': 'systemd-oomd\n',
        '200/cgroup': '0::/system.slice/systemd-oomd.service\n',
        '300/comm': 'oomd\n',
        '300/cgroup': '0::/user.slice/user-0.slice/session-1.scope\n',
      });
      const facts = withHost(await look(), { oomDaemons: await findOomDaemons(clock, proc) });
      const said = says(facts, 'other-oom-daemon').toSorted((one, other) => one.text.localeCompare(other.text));
      expect(said).toMatchObject([
        {
          text: expect.stringContaining('(process 100 of supervisor.service, which may run other programs as well)'),
          mend: 'systemctl status supervisor.service',
        },
        { text: expect.stringContaining('(process 300)'), mend: 'kill 300' },
        { text: expect.stringContaining('(process 200)'), mend: 'systemctl disable --now systemd-oomd.service' },
      ]);
    },
  );

  it.skipIf(!isRoot)('reports a kubelet of another machine that runs here [needs root]', async () => {
    const proc = aTree({
      '100/comm': 'kubelet\n',
      '100/cgroup': '0::/system.slice/kubelet.service\n',
      '100/cmdline': '/usr/bin/kubelet\0',
    });
    symlinkSync('/', `${proc}/100/cwd`);
    const facts = withHost(await look(), { kubelet: await findKubelet(clock, proc) });
    expect(says(facts, 'kubelet-beside-standalone')).toMatchObject([{ mend: expect.stringContaining('config show') }]);
  });

  it('reports that oom_score_adj cannot be lowered without the capability, if a pod needs it', async () => {
    const resources = '{ requests: { cpu: 1, memory: 64Mi }, limits: { cpu: 1, memory: 64Mi } }';
    writeFileSync(
      at('pods.d/db.yaml'),
      `apiVersion: v1\nkind: Pod\nmetadata: { name: db, annotations: { nodewarden.dev/cgroup: nodewarden-test-absent } }\nspec: { containers: [{ name: main, resources: ${resources} }] }\n`,
      { mode: 0o644 },
    );
    const facts = await look();
    const proc = aTree({ '1/status': 'Name:\tinit\nCapEff:\t000001fffeffffff\n' });
    expect(says(withHost(facts, { mayLowerOomScores: hasSysResource(1, proc) }), 'cap-sys-resource')).toMatchObject([
      { text: expect.stringContaining('a lower oom_score_adj to default/db') },
    ]);
  });

  it('reports a pod whose cgroup has no memory figures', async () => {
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    const facts = await look();
    const root = `${FIXTURES}/6.1.192-v2-debian12`;
    const other = { unified: root, memory: root, pids: root, systemd: root, version: 2, layout: 'v2' } as const;
    const memory = openMemory(other, '/no-such-cgroup').read();
    const [web] = facts.pods.known ? facts.pods.value.pods : [];
    if (!facts.pods.known || web === undefined || memory.known) throw new Error('no pod, or memory that is there');
    const cgroup = known({ path: '/system.slice/web.service', inode: '1' } as never);
    const pod = { ...web, bound: { ...web.bound, cgroup }, memoryBytes: memory };
    const blind = { ...facts, pods: known({ ...facts.pods.value, pods: [pod] }) };
    expect(says(blind, 'pod-unmeasured')).toMatchObject([
      { text: expect.stringContaining('Its cgroup /system.slice/web.service lacks the memory controller') },
    ]);
  });

  it('reports that a scratch directory would not be emptied', async () => {
    mkdirSync(at('real'));
    symlinkSync(at('real'), at('link'));
    manifest('web', { cgroup: 'nodewarden-test-absent', scratch: at('link') });
    expect(says(await look(), 'scratch-unsafe')).toMatchObject([{ text: expect.stringContaining(at('link')) }]);
  });

  it('reports a disk directory that is a symbolic link, and what to write instead', async () => {
    mkdirSync(at('real'));
    symlinkSync(at('real'), at('link'));
    symlinkSync(at('nowhere'), at('broken'));
    manifest('web', { cgroup: 'nodewarden-test-absent', disk: at('link') });
    manifest('db', { cgroup: 'nodewarden-test-other', disk: at('real') });
    manifest('old', { cgroup: 'nodewarden-test-third', disk: at('broken') });
    const said = says(await look(), 'disk-usage-unknown').map(({ text }) => text);
    const why = 'is a symbolic link, which is not followed, so what the pod has on disk is not measured';
    expect(said.toSorted()).toEqual([
      `default/old: the disk directory ${at('broken')} ${why}: name the directory itself instead`,
      `default/web: the disk directory ${at('link')} ${why}: name ${at('real')}, where it leads, instead`,
    ]);
  });

  it('reports that others could put another directory in the place of a scratch directory', async () => {
    mkdirSync(at('shared'));
    chmodSync(at('shared'), 0o777);
    manifest('web', { cgroup: 'nodewarden-test-absent', scratch: at('shared/web') });
    expect(says(await look(), 'scratch-unsafe')).toMatchObject([
      { kind: 'warning', text: expect.stringContaining(`chmod go-w ${at('shared')}`) },
    ]);
  });

  it('reports a logind file that limits the delay to less than the phases need', async () => {
    configure('shutdownGracePeriod: 30s', 'shutdownGracePeriodCriticalPods: 10s');
    const facts = await look();
    const root = aTree({ 'etc/systemd/logind.conf.d/50-cap.conf': '[Login]\nInhibitDelayMaxSec=5\n' });
    const delay = createLogindDropIn(at('run'), root).winner();
    const shutdown = { ...facts.shutdown, delay, grantedMs: known(5_000) };
    expect(says({ ...facts, shutdown }, 'shutdown-delay-capped')).toMatchObject([
      { text: expect.stringContaining('50-cap.conf sets InhibitDelayMaxSec to 5s, but all phases need 30s') },
    ]);
  });

  it('reports what fills a disk that is near its threshold', { timeout: 60_000 }, async () => {
    mkdirSync(at('data'));
    configure(`nodefs: { path: ${at('data')} }`, 'evictionHard: { nodefs.available: 99% }');
    expect(says(await look(), 'unfreeable-files')).toMatchObject([
      { kind: 'warning', text: expect.stringMatching(/^nodefs\.available is .*, near its threshold of /) },
    ]);
  });

  it('reports what has the name of one of its files, and is none', async () => {
    mkdirSync(at('state/record.jsonl'), { recursive: true });
    mkdirSync(at('run/state.json.corrupt-20260131T120000Z'), { recursive: true });
    execFileSync('mkfifo', [at('run/held.json')]);
    const facts = await look();
    expect(says(facts, 'own-file-unusable')).toMatchObject([
      { text: `${at('run/held.json')} is a FIFO, not a file: the agent cannot use it` },
      {
        text: `${at('state/record.jsonl')} is a directory, not a file: the agent cannot use it`,
        mend: `mv ${at('state/record.jsonl')} ${at('state/record.jsonl')}.old`,
      },
    ]);
    expect(doctorReport(facts, HERE).fine.map(({ code }) => code)).not.toContain('own-directories');
  });

  it('does not say that no unit is held down if the file of these is damaged', async () => {
    mkdirSync(at('run'));
    writeFileSync(at('run/held.json'), '');
    expect(says(await look(), 'unit-held-down')).toMatchObject([{ kind: 'unknown' }]);
  });

  it('does not say that no unit is held down if it is not known of which boot the file is', async () => {
    mkdirSync(at('run'));
    const held = { schema: 1, bootId: 'some-boot', conditions: [], units: [], restarted: [], stoppedAgain: [] };
    writeFileSync(at('run/held.json'), JSON.stringify(held));
    const facts = await look();
    if (!facts.effective.known || mounts === null) throw new Error('no configuration, or no cgroups');
    const bootId = unknown('unreadable', '/proc/sys/kernel/random/boot_id', 'EACCES');
    const bus = openSystemBus(clock);
    const needs = { clock, effective: facts.effective.value, mounts, systemd: createSystemd(bus) };
    const pods = known(await lookAtPods({ ...needs, bootId }));
    bus.close();
    expect(says({ ...facts, pods }, 'unit-held-down')).toMatchObject([
      { kind: 'unknown', text: expect.stringContaining('boot_id: EACCES') },
    ]);
  });

  it.each([
    { name: 'run', code: 'own-directories', kind: 'blocking' },
    { name: 'state', code: 'own-file-unusable', kind: 'warning' },
  ])('reports a file in the place of its directory: $name', async ({ name, code, kind }) => {
    writeFileSync(at(name), '');
    const text = `${at(name)} is a file, not a directory: the agent cannot use it`;
    expect(says(await look(), code)).toMatchObject([{ kind, text, mend: `mv ${at(name)} ${at(name)}.old` }]);
  });

  it('says that a manifest is in force whose last good version the agent has kept', async () => {
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    const text = readFileSync(at('pods.d/web.yaml'), 'utf8');
    const kept = { schema: 1, directory: at('pods.d'), files: { 'web.yaml': text } };
    mkdirSync(at('run'));
    writeFileSync(at('run/manifests-last-good.json'), JSON.stringify(kept));
    rmSync(at('pods.d/web.yaml'));
    symlinkSync(at('config.yaml'), at('pods.d/web.yaml'));
    const facts = await look();
    expect(says(facts, 'manifest-invalid')).toMatchObject([
      { text: expect.stringMatching(/; its last good version stays in force$/) },
    ]);
    expect(says(facts, 'nothing-to-evict')).toEqual([]);
  });

  it('names a pod through which others use files, unless it goes last or never', async () => {
    manifest('media', { cgroup: 'nodewarden-test-absent' });
    manifest('last', { cgroup: 'nodewarden-test-last', protect: 'true' });
    manifest('never', { cgroup: 'nodewarden-test-never', 'evict-for': 'none' });
    const facts = await look();
    if (!facts.pods.known) throw new Error(facts.pods.detail);
    const served = known({ name: 'rclone', pid: 7, device: '/dev/fuse' });
    const pods = facts.pods.value.pods.map((pod) => ({ ...pod, served }));
    expect(says({ ...facts, pods: known({ ...facts.pods.value, pods }) }, 'serves-files')).toMatchObject([
      {
        text: expect.stringMatching(
          /^others use files through default\/media \(rclone, process 7, has \/dev\/fuse open\)/,
        ),
      },
    ]);
    expect(says(facts, 'serves-files')).toEqual([]);
  });

  it('says nothing about the mode, nor that the agent is not running, without a configuration', async () => {
    rmSync(at('config.yaml'));
    const facts = await look();
    expect(says(facts, 'agent-not-running')).toMatchObject([{ kind: 'unknown' }]);
    const kubelet = known({ argv: ['kubelet'], cwd: '/' });
    expect(says(withHost(facts, { kubelet }), 'kubelet-beside-standalone')).toEqual([]);
  });

  it('names nobody if no memory is used outside the pods', async () => {
    const facts = await look();
    const memory = known({ capacityBytes: MIB, podsBytes: 0, others: [] });
    expect(doctorReport(withHost(facts, { memory }), HERE).fine).toContainEqual({
      code: 'memory-outside-pods',
      text: 'no memory is used outside pods',
    });
  });

  it.skipIf(!isRoot)('reports files in memory, and a record without space [needs root]', async () => {
    const facts = await look();
    const tmpfs = at('tmpfs');
    mkdirSync(tmpfs);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=131m', 'nodewarden-test', tmpfs]);
    try {
      writeFileSync(`${tmpfs}/large`, Buffer.alloc(128 * MIB, 1));
      // Those of the machine may be larger, and only the largest are reported.
      const mounted = readFileSync('/proc/self/mountinfo', 'latin1').split('\n');
      mkdirSync(at('proc/self'), { recursive: true });
      writeFileSync(at('proc/self/mountinfo'), `${mounted.filter((line) => line.includes(` ${tmpfs} `)).join('\n')}\n`);
      const sharedMemory = await readSharedMemory(4 * MIB, at('proc'));
      expect(says(withHost(facts, { sharedMemory }), 'memory-without-process')).toMatchObject([
        { text: expect.stringContaining(`${tmpfs}/large`) },
      ]);
      rmSync(at('state'), { recursive: true, force: true });
      symlinkSync(tmpfs, at('state'));
      expect(says(await look(), 'record-space')).toMatchObject([{ text: expect.stringContaining('3 MiB left') }]);
    } finally {
      execFileSync('umount', [tmpfs]);
    }
  });

  it.skipIf(needsCgroups !== '')(`reports who uses the memory outside the pods ${needsCgroups}`, async () => {
    const node = makeCgroup();
    try {
      if (mounts === null) throw new Error('no cgroups');
      limitMemory(mounts, node.path, 64 * MIB);
      await node.child('hog', 'x=$(head -c 24000000 /dev/zero | tr "\\0" x); echo ready; sleep 600');
      configure(`cgroupRoot: ${node.path}`);
      const facts = await look();
      expect(says(facts, 'memory-outside-pods')).toMatchObject([
        { text: expect.stringContaining('of 64 MiB of memory') },
      ]);
    } finally {
      await node.remove();
    }
  });

  describe.skipIf(needsCgroups !== '')(`below a cgroup with a limit of its own ${needsCgroups}`, () => {
    const node = mounts === null ? null : makeCgroup();
    afterAll(() => node?.remove());
    /** A cgroup below the node, which may have limits too. */
    const inside = (name: string, limitBytes: number | null): void => {
      for (const root of node?.roots ?? []) {
        mkdirSync(`${root}/${name}`);
        if (mounts?.version === 2)
          writeFileSync(`${path.dirname(`${root}/${name}`)}/cgroup.subtree_control`, '+memory');
      }
      if (mounts !== null && limitBytes !== null) limitMemory(mounts, `${node?.path}/${name}`, limitBytes);
    };

    it("says that the kernel's OOM killer may act first: there, and where pods share one", async () => {
      if (node === null || mounts === null) throw new Error('no cgroups');
      limitMemory(mounts, node.path, 512 * MIB);
      inside('shop', null);
      configure(`cgroupRoot: ${node.path}/shop`, 'memoryAvailable: reclaimable');
      const all = `cgroup ${node.path}, which is limited to 512 MiB of memory`;
      expect(says(await look(), 'kernel-first')).toMatchObject([
        { kind: 'warning', text: expect.stringContaining(all) },
      ]);

      configure(`cgroupRoot: ${node.path}`, 'memoryAvailable: reclaimable');
      inside('shop/web', null);
      manifest('web', { cgroup: 'shop/web' });
      limitMemory(mounts, `${node.path}/shop`, 256 * MIB);
      expect(says(await look(), 'kernel-first')).toEqual([]);
      inside('shop/db', null);
      manifest('db', { cgroup: 'shop/db' });
      const facts = await look();
      // Their cgroups are empty.
      expect(doctorReport(facts, HERE).fine).toContainEqual({
        code: 'nothing-to-evict',
        text: 'pods: 0 of the 2 that may be evicted are running',
      });
      expect(says(facts, 'kernel-first')).toMatchObject([
        {
          text: expect.stringMatching(
            /may act in .*\/shop before memory\.available .* limited to 256 MiB of memory, which 2 pods share: default\/db, default\/web\./,
          ),
          mend: `systemd-cgls ${node.path}/shop`,
        },
      ]);
    });
  });

  it('reports what the running agent does, not what its next configuration says', async () => {
    configure('dryRun: true');
    await serving();
    const [finding] = says(await look(), 'dry-run');
    expect(finding?.text).toBe(
      'dryRun is true in the configuration, but not in that of the running agent, which evicts',
    );
  });

  it('reports that mode kubelet has no credentials', async () => {
    writeFileSync(at('config.yaml'), 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n', {
      mode: 0o644,
    });
    expect(says(await look(), 'kubeconfig-unusable')).toMatchObject([{ kind: 'blocking' }]);
    configure('mode: kubelet', `kubernetes: { kubeconfig: ${at('none')}, nodeName: node-1 }`);
    expect(says(await look(), 'kubeconfig-unusable')).toMatchObject([{ text: expect.stringContaining(at('none')) }]);
  });
});

describe.skipIf(!hasDbusDaemon)('nodewarden doctor and the service of the agent [needs dbus-daemon]', () => {
  const doctor = aDoctor();
  let fake: FakeSystemd;
  beforeEach(async () => {
    doctor.configure('shutdownGracePeriod: 30s', 'shutdownGracePeriodCriticalPods: 10s');
    fake = await openFakeSystemd();
    process.env['DBUS_SYSTEM_BUS_ADDRESS'] = fake.daemon.address;
  });
  afterEach(async () => {
    delete process.env['DBUS_SYSTEM_BUS_ADDRESS'];
    await fake.remove();
  });

  it('reports that it failed, is not enabled or has too little time for the phases, and a binding to a missing unit', async () => {
    const service = { invocation: 1, controlGroup: '', loadState: 'loaded', unitFileState: 'disabled' };
    fake.units.set('nodewarden.service', { ...service, activeState: 'failed', stopUs: 15_000_000n });
    doctor.manifest('web', { 'systemd-unit': 'no-such.service' });
    const facts = await lookAround(doctor.path('config.yaml'), clock);
    const said = (code: string) => saidOf(doctorReport(facts, HERE), code);
    expect(said('agent-failed')).toMatchObject([{ text: expect.stringContaining('(exit-code, exit status 3)') }]);
    expect(said('agent-not-enabled')).toMatchObject([{ text: expect.stringContaining('is disabled') }]);
    const { agent } = facts;
    const forgotten = { ...agent.service, value: { ...valueOrNull(agent.service), unitFileState: 'enabled-runtime' } };
    const until = { ...facts, agent: { ...agent, service: forgotten as typeof agent.service } };
    expect(saidOf(doctorReport(until, HERE), 'agent-not-enabled')).toHaveLength(1);
    expect(said('agent-stop-timeout-short')).toMatchObject([{ mend: expect.stringContaining('TimeoutStopSec=35') }]);
    expect(said('binding-unresolved')).toMatchObject([{ text: expect.stringContaining('no-such.service') }]);
  });
});

describe('the checks', () => {
  it('have each been seen to fire in a test', () => {
    const tests = readdirSync(import.meta.dirname).filter(
      (name) => name.endsWith('.test.ts') && name !== 'docs.test.ts',
    );
    const texts = tests.map((name) => readFileSync(path.join(import.meta.dirname, name), 'utf8')).join('\n');
    const isSeen = (code: string): boolean =>
      [`, '${code}')`, `said('${code}')`, `  ${code}: `].some((text) => texts.includes(text));
    expect(Object.keys(CHECKS).filter((code) => !isSeen(code))).toEqual([]);
  });
});
