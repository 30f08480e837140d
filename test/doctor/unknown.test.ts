import { beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import type { Facts, FoundPod, KubeFacts, PodsFacts } from '../../src/doctor/facts.ts';
import { lookAround } from '../../src/doctor/look.ts';
import { lookAtPods } from '../../src/doctor/look-pods.ts';
import { doctorReport } from '../../src/doctor/report.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { openFakeSystemd } from '../host/fake-systemd.ts';
import { orDbusDaemon } from '../host/private-bus.ts';
import { clock } from '../host/test-cgroup.ts';
import { aDoctor, KUBE } from './a-doctor.ts';

const WHY = unknown('unreadable', '/some/file', 'EACCES: permission denied');
const HERE = { atWallMs: 0, node: 'node-1', version: '0.1.0', nodeVersion: '20.20.2' };
const MIB = 1024 ** 2;
const needs = orDbusDaemon(needsCgroups);

type Part = (facts: Facts) => Partial<Facts>;
type Row = {
  readonly unread: string;
  readonly of: Part;
  readonly codes: readonly string[];
  /** Of what says no reason by itself. */
  readonly because?: string;
};

const host =
  (part: Partial<Facts['host']>): Part =>
  (facts) => ({ host: { ...facts.host, ...part } });
const sizes =
  (part: Partial<Facts['host']['sizes']>): Part =>
  (facts) => ({ host: { ...facts.host, sizes: { ...facts.host.sizes, ...part } } });
const shutdown =
  (part: Partial<Facts['shutdown']>): Part =>
  (facts) => ({ shutdown: { ...facts.shutdown, grantedMs: known(5_000), ...part } });
const agent =
  (part: Partial<Facts['agent']>): Part =>
  (facts) => ({ agent: { ...facts.agent, ...part } });
const unreadAt =
  (...codes: readonly Facts['unread'][number]['code'][]): Part =>
  () => ({ unread: codes.map((code) => ({ code, why: WHY })) });
const places =
  (part: Partial<Facts['places']>): Part =>
  (facts) => ({ places: { ...facts.places, ...part } });

/** One that runs, is left out of evictions for memory, and beside it one that is not. */
const pods =
  (part: Partial<PodsFacts>, ofFirst: Partial<FoundPod> = {}): Part =>
  (facts) => {
    if (!facts.pods.known) throw new Error(facts.pods.detail);
    const { pods: all } = facts.pods.value;
    const first = all.find(({ bound }) => bound.declared.evictFor !== undefined);
    if (first === undefined) throw new Error('no such pod');
    const rest = all.filter((pod) => pod !== first);
    const runs: FoundPod = {
      ...first,
      bound: { ...first.bound, cgroup: known({ path: '/web', inode: '1' } as never) },
      unit: 'web.service',
      memoryBytes: known(MIB),
      limitBytes: known(null),
      oomScores: known([300]),
      timeout: { unit: 'web.service', timeoutMs: known(90_000), stopCommands: 0, killMode: null },
    };
    return { pods: known({ ...facts.pods.value, pods: [{ ...runs, ...ofFirst }, ...rest], ...part }) };
  };
const kube =
  (part: Partial<KubeFacts>): Part =>
  () => ({ kube: known({ ...KUBE, ...part }) });

const ROWS: readonly Row[] = [
  { unread: 'the answer of the agent', of: agent({ status: WHY, isRunning: null }), codes: ['agent-not-running'] },
  { unread: 'the service', of: agent({ service: WHY }), codes: ['agent-not-enabled'] },
  { unread: 'the directories', of: places({ distrusted: WHY }), codes: ['own-directories'] },
  { unread: 'the disk of the record', of: places({ recordFree: WHY }), codes: ['record-space'] },
  { unread: 'paths', of: unreadAt('path-missing'), codes: ['path-missing'] },
  { unread: 'signals', of: unreadAt('threshold-met'), codes: ['threshold-met'] },
  { unread: 'programs', of: unreadAt('program-unsafe'), codes: ['program-unsafe'] },
  { unread: 'the swap', of: unreadAt('swap-off'), codes: ['swap-off'] },
  { unread: 'a capacity', of: unreadAt('config-warning'), codes: ['config-warning'] },
  {
    unread: 'the stalls',
    of: sizes({ hasMemoryPressure: null }),
    codes: ['psi-off'],
    because: '/proc/pressure/memory: not readable',
  },
  { unread: 'the memory of the kernel', of: sizes({ beyondReach: WHY }), codes: ['kernel-first'] },
  {
    unread: 'the size of the memory',
    of: sizes({ memoryBytes: null }),
    codes: ['kernel-first', 'cap-sys-resource'],
    because: '/proc/meminfo: the size of the memory is not known',
  },
  { unread: 'other daemons', of: host({ oomDaemons: WHY }), codes: ['other-oom-daemon'] },
  { unread: 'a kubelet', of: host({ kubelet: WHY }), codes: ['kubelet-beside-standalone'] },
  { unread: 'who has the memory', of: host({ memory: WHY }), codes: ['memory-outside-pods'] },
  { unread: 'memory without a process', of: host({ sharedMemory: WHY }), codes: ['memory-without-process'] },
  {
    unread: 'one tmpfs',
    of: host({ sharedMemory: known({ mounts: [], segments: [], unread: WHY }) }),
    codes: ['memory-without-process'],
  },
  { unread: 'the disks', of: () => ({ disks: WHY }), codes: ['unfreeable-files'] },
  {
    unread: 'one disk',
    of: () => ({ disks: known([{ signal: 'nodefs.available', path: '/', near: WHY }]) }),
    codes: ['unfreeable-files'],
  },
  {
    unread: 'all pods',
    of: () => ({ pods: WHY }),
    codes: [
      ...['manifest-invalid', 'nothing-to-evict', 'evict-for-unbounded', 'binding-unresolved', 'scratch-unsafe'],
      ...['pod-unmeasured', 'disk-usage-unknown', 'priority-inherited', 'unit-held-down', 'oom-score-adj'],
      ...['cap-sys-resource', 'stop-timeout-short'],
    ],
  },
  {
    unread: 'the units',
    of: pods({ units: WHY }),
    codes: ['nothing-to-evict', 'binding-unresolved', 'pod-unmeasured', 'priority-inherited', 'stop-timeout-short'],
  },
  { unread: 'the scratch directories', of: pods({ scratch: WHY }), codes: ['scratch-unsafe'] },
  { unread: 'the directories of a pod', of: pods({ hung: [WHY] }), codes: ['disk-usage-unknown'] },
  { unread: 'what is held down', of: pods({ held: WHY }), codes: ['unit-held-down'] },
  { unread: 'a memory limit', of: pods({}, { limitBytes: WHY }), codes: ['evict-for-unbounded'] },
  { unread: 'the scores of a pod', of: pods({}, { oomScores: WHY }), codes: ['oom-score-adj'] },
  { unread: 'the open files of a pod', of: pods({}, { served: WHY }), codes: ['serves-files'] },
  {
    unread: 'the stop timeout of a unit',
    of: pods({}, { timeout: { unit: 'web.service', timeoutMs: WHY, stopCommands: 0, killMode: null } }),
    codes: ['stop-timeout-short'],
  },
  { unread: 'the delay of logind', of: shutdown({ grantedMs: WHY }), codes: ['shutdown-delay-capped'] },
  { unread: 'the files of logind', of: shutdown({ delay: WHY }), codes: ['shutdown-delay-capped'] },
  {
    unread: 'the stop timeout of the agent',
    of: (facts) => ({ ...agent({ service: WHY })(facts), ...shutdown({ agentStopMs: WHY })(facts) }),
    codes: ['agent-not-enabled', 'agent-stop-timeout-short'],
  },
  {
    unread: 'the API server altogether',
    of: () => ({ kube: WHY }),
    codes: [
      ...['kubeconfig-unusable', 'api-unreachable', 'not-our-node', 'rbac-missing', 'kubelet-first', 'budget-refuses'],
      ...['out-of-service-taint', 'taints-left'],
    ],
  },
  { unread: 'the rights', of: kube({ rights: { missing: [], unread: WHY } }), codes: ['rbac-missing'] },
  { unread: 'the budgets', of: kube({ budgets: WHY }), codes: ['budget-refuses'] },
  { unread: 'what the kubelet goes by', of: kube({ firsts: WHY }), codes: ['kubelet-first'] },
  {
    unread: 'whether the agent runs, beside its taint',
    of: (facts) => ({
      ...agent({ status: WHY, isRunning: null })(facts),
      ...kube({ taints: ['nodewarden.dev/memory-pressure'] })(facts),
    }),
    codes: ['agent-not-running', 'taints-left'],
  },
];

describe('what nodewarden doctor cannot read', () => {
  const doctor = aDoctor();
  let facts: Facts;
  beforeEach(async () => {
    doctor.configure('shutdownGracePeriod: 30s', 'shutdownGracePeriodCriticalPods: 10s');
    doctor.manifest('web', { cgroup: 'nodewarden-test-absent', 'evict-for': 'disk' });
    doctor.manifest('batch', { cgroup: 'nodewarden-test-other' });
    facts = await lookAround(doctor.path('config.yaml'), clock);
  });

  it.each(ROWS)('$unread: is reported as not known, with the reason, and never as fine', ({ of, codes, because }) => {
    const { findings, fine } = doctorReport({ ...facts, ...of(facts) }, HERE);
    const reason = because ?? `${WHY.where}: ${WHY.detail}`;
    const told = findings.filter(({ kind, text }) => kind === 'unknown' && text.endsWith(reason));
    expect(told.map(({ code }) => code)).toEqual(expect.arrayContaining([...codes]));
    const isMissing = (code: string): boolean => codes.includes(code);
    expect(fine.map(({ code }) => code).filter(isMissing)).toEqual([]);
  });

  it('hides no other finding', () => {
    const warnings = [{ code: 'path-missing', text: '/none does not exist' } as const];
    const { findings } = doctorReport({ ...facts, ...unreadAt('path-missing')(facts), warnings }, HERE);
    const kinds = findings.filter(({ code }) => code === 'path-missing').map(({ kind }) => kind);
    expect(kinds).toEqual(['warning', 'unknown']);
  });

  it.skipIf(needs !== '')(
    `does not pass off units as harmless of which systemd has said nothing ${needs}`,
    async () => {
      const fake = await openFakeSystemd();
      doctor.manifest('web', { 'systemd-unit': 'web.service' });
      const web = { activeState: 'active', invocation: 1, controlGroup: '/web', loadState: 'loaded' };
      fake.units.set('web.service', { ...web, actions: { FailureAction: 'reboot-force' } });
      if (!facts.effective.known || mounts === null) throw new Error('no configuration');
      const parts = { clock, effective: facts.effective.value, mounts, bootId: known('boot') };
      const reported = async (ties: Systemd['ties']) => {
        const read = known(await lookAtPods({ ...parts, systemd: { ...fake.systemd, ties } }));
        const { findings, fine } = doctorReport({ ...facts, pods: read }, HERE);
        const isMeant = (code: string): boolean => ['machine-action', 'priority-inherited'].includes(code);
        const told = [...findings, ...fine.map(({ code }) => ({ code, kind: 'fine' }))];
        return told.filter(({ code }) => isMeant(code)).map(({ code, kind }) => `${code}: ${kind}`);
      };
      const silent = await reported(async (name) => unknown('timed-out', name, 'no answer'));
      expect(silent.toSorted()).toEqual(['machine-action: unknown', 'priority-inherited: unknown']);
      let told = silent;
      // On a busy machine, a silence too.
      while (told.includes('machine-action: unknown')) told = await reported(fake.systemd.ties);
      expect(told.toSorted()).toEqual(['machine-action: warning', 'priority-inherited: fine']);
      await fake.remove();
    },
  );
});
