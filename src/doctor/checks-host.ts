import { runtimeRootOf } from '../core/disk-paths.ts';
import { known, type Reading } from '../core/reading.ts';
import { userName } from '../host/user-name.ts';
import * as say from '../words/doctor.ts';
import { sayFilledDisk, sayFilledMemory, sayUser } from '../words/what-fills.ts';
import {
  AGENT_SHOWS,
  agentSays,
  type Check,
  type Found,
  fine,
  found,
  foundOr,
  foundOrUnknown,
  NOT_APPLICABLE,
  notHereOrUnknown,
  type Result,
  unknownBecause,
} from './check.ts';
import type { DiskFacts, Facts } from './facts.ts';
import { isNear } from './look-disks.ts';

/** If one user outside the pods holds ONE_SHARE of the memory, or all of them ALL_SHARE, evictions may not help. */
const ONE_SHARE = 1 / 4;
const ALL_SHARE = 1 / 2;
const WHAT_FILLS = ['what-fills/'];

function outsidePods({ host: { memory } }: Facts): Result {
  if (!memory.known) return notHereOrUnknown(memory);
  const { others, capacityBytes } = memory.value;
  const users = others.filter(({ bytes }) => bytes > 0);
  const outsideBytes = users.reduce((sum, { bytes }) => sum + bytes, 0);
  const most = users[0]?.bytes ?? 0;
  const isMuch = most >= capacityBytes * ONE_SHARE || outsideBytes >= capacityBytes * ALL_SHARE;
  return isMuch
    ? found({ text: say.memoryOutside(users, outsideBytes, capacityBytes) })
    : fine(say.largestOutside(users));
}

/** What the agent measures where this command cannot; null: it is not near a threshold. */
function nearByAgent({ signal, near: missing }: DiskFacts, { agent: { status } }: Facts): Reading<Found | null> {
  const row = status.known ? status.value.signals.find((one) => one.signal === signal) : undefined;
  if (row === undefined || row.available === null) return row?.unknown ?? (missing.known ? known(null) : missing);
  const limit = Math.max(0, ...row.thresholds.flatMap((threshold) => threshold.limit ?? []));
  if (row.capacity === 0 || !isNear(row.available, limit)) return known(null);
  return known({ text: say.nearThreshold(signal, row.available, limit), mend: AGENT_SHOWS });
}

function near({ signal, near: reading }: DiskFacts, { effective }: Facts): readonly Found[] {
  const disk = reading.known ? reading.value : null;
  if (disk === null) return [];
  const { available, limit, root, survey } = disk;
  const first = `${say.nearThreshold(signal, available, limit)}. `;
  if (!survey.known) return [{ text: `${first}${survey.where}: ${survey.detail}`, fill: { path: root } }];
  const { directories, ...rest } = survey.value;
  const by = signal.endsWith('inodesFree') ? 'inodes' : 'bytes';
  const owned = directories.map((directory) => ({
    ...directory,
    owner: sayUser(directory.uid, userName(directory.uid)),
    runtimeRoot: runtimeRootOf(directory.path),
  }));
  const mode = effective.known ? effective.value.mode : 'standalone';
  const file = { root, runtimeRoot: runtimeRootOf(root), mode };
  const text = `${first}${sayFilledDisk(file, by, { ...rest, directories: owned, nameless: null })}`;
  return [{ text, fill: { path: root } }];
}

function idleMemory({ host: { sharedMemory } }: Facts): Result | readonly Result[] {
  if (!sharedMemory.known) return unknownBecause(sharedMemory);
  const owned = <T extends { readonly uid: number }>(of: T) => ({ ...of, owner: sayUser(of.uid, userName(of.uid)) });
  const mounts = sharedMemory.value.mounts.map((mount) => ({ ...mount, files: mount.files.map(owned) }));
  const text = sayFilledMemory(mounts, sharedMemory.value.segments.map(owned));
  const { unread } = sharedMemory.value;
  return foundOrUnknown(text === null ? [] : [{ text }], unread === null ? [] : [unread], fine(say.noIdleMemory));
}

export const HOST = {
  'no-memory-controller': {
    weight: 'blocking',
    asks: 'whether there is a memory controller',
    mend: 'cat /proc/cgroups /sys/fs/cgroup/cgroup.controllers',
    judge: ({ host: { mounts } }) =>
      mounts.known
        ? fine(say.cgroups(mounts.value.layout, mounts.value.pids !== null))
        : found({ text: `${mounts.where}: ${mounts.detail}` }),
  },
  'no-pids-controller': {
    weight: 'warning',
    asks: 'whether there is a pids controller',
    mend: 'cat /proc/cgroups /sys/fs/cgroup/cgroup.controllers',
    judge: ({ host: { mounts } }) =>
      mounts.known && mounts.value.pids === null ? found({ text: say.noPids }) : NOT_APPLICABLE,
  },
  'boot-id': {
    weight: 'blocking',
    asks: 'whether this boot can be distinguished from the previous one',
    mend: 'cat /proc/sys/kernel/random/boot_id',
    judge: ({ host: { bootId } }) =>
      bootId.known ? NOT_APPLICABLE : found({ text: `${bootId.where}: ${bootId.detail}` }),
  },
  'other-oom-daemon': {
    weight: 'warning',
    asks: 'whether another out-of-memory daemon runs',
    mend: 'systemctl disable --now <unit>',
    judge: ({ host: { oomDaemons } }) => {
      if (!oomDaemons.known) return unknownBecause(oomDaemons);
      const all = oomDaemons.value.map(({ name, pid, unit, isItsOwn }) => {
        const text = say.otherDaemon(name, pid, isItsOwn ? null : unit);
        if (unit === null) return { text, mend: 'kill <pid>', fill: { pid: String(pid) } };
        return isItsOwn ? { text, fill: { unit } } : { text, mend: 'systemctl status <unit>', fill: { unit } };
      });
      return foundOr(all, fine(say.noOtherDaemon));
    },
  },
  'kubelet-beside-standalone': {
    weight: 'warning',
    asks: 'whether a kubelet runs here',
    mend: 'nodewarden config show',
    judge: ({ host: { kubelet }, effective }) => {
      if (!effective.known || effective.value.mode === 'kubelet') return NOT_APPLICABLE;
      if (!kubelet.known) return kubelet.why === 'absent' ? fine(say.noKubelet) : unknownBecause(kubelet);
      return found({ text: say.kubeletBeside });
    },
  },
  'memory-outside-pods': {
    weight: 'warning',
    asks: 'what uses the memory outside pods',
    mend: 'systemd-cgtop -m -n 1',
    judge: outsidePods,
  },
  'memory-without-process': {
    weight: 'warning',
    asks: 'whether memory is held without a process',
    mend: 'df -h -t tmpfs',
    judge: idleMemory,
  },
  'unfreeable-files': {
    weight: 'warning',
    asks: 'what fills the disks',
    mend: 'du -xh --max-depth=2 <path>',
    takes: WHAT_FILLS,
    judge: (facts) => {
      const { disks } = facts;
      const said = agentSays(facts, WHAT_FILLS).map((one) => ({ ...one, mend: AGENT_SHOWS }));
      if (said.length > 0) return found(...said);
      if (!disks.known) return unknownBecause(disks);
      const own = disks.value.filter(({ path }) => path !== null);
      const agents = disks.value.filter(({ path }) => path === null).map((one) => nearByAgent(one, facts));
      const unread = [...own.map((one) => one.near), ...agents].flatMap((reading) => (reading.known ? [] : [reading]));
      const all = [
        ...own.flatMap((one) => near(one, facts)),
        ...agents.flatMap((one) => (one.known && one.value !== null ? [one.value] : [])),
      ];
      return foundOrUnknown(all, unread, disks.value.length === 0 ? NOT_APPLICABLE : fine(say.disksFine));
    },
  },
} satisfies { readonly [code: string]: Check };
