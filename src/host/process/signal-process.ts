import type { CgroupRef } from '../../ports.ts';
import { isMember } from '../cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../cgroup/cgroup-mounts.ts';
import { isSame } from '../cgroup/cgroupfs.ts';
import { codeOf } from '../file-error.ts';
import { isExiting, isKernelThread } from '../procfs.ts';

/**
 * Signals a process that is in the cgroup or below it right now (beside-a-kubelet H10: since the pid was listed, it may have
 * been reused). Never pid 1, ourselves, a kernel thread, or any process if the cgroup is the root.
 * `gone`: it has ended, or is ending. `not-ours`: it is not in the cgroup, must not be signalled, or this is unknown.
 * `refused`: the kernel refused the signal. `isListed` reads the cgroup again, for a process nested so deep that the kernel
 * cannot write its path.
 */
export function signalInCgroup(
  mounts: CgroupMounts,
  ref: CgroupRef,
  pid: number,
  signal: 'SIGTERM' | 'SIGKILL',
  isListed: () => boolean = () => false,
): 'sent' | 'gone' | 'not-ours' | 'refused' {
  if (ref.path === '/') return 'not-ours';
  const never = neverSignalled(pid);
  if (never !== null) return never;
  // Right before the signal: nothing may come in between. The process has a path only, which its cgroup may have had.
  const wasSame = isSame(mounts, ref);
  const member = isMember(mounts, ref, pid);
  if (!member.known && member.why === 'absent') return 'gone';
  const isOurs = (wasSame && member.known && member.value && isSame(mounts, ref)) || isListed();
  if (!isOurs) {
    const isEnding = isExiting(pid);
    return (isEnding.known ? isEnding.value : isEnding.why === 'absent') ? 'gone' : 'not-ours';
  }
  return send(pid, signal);
}

/** Null: it may be signalled. */
function neverSignalled(pid: number): 'gone' | 'not-ours' | null {
  // kill(2) interprets a pid below 2 as a process group, as all processes, or as init.
  if (!Number.isSafeInteger(pid) || pid < 2 || pid === process.pid) return 'not-ours';
  const isKernel = isKernelThread(pid);
  if (!isKernel.known) return isKernel.why === 'absent' ? 'gone' : 'not-ours';
  return isKernel.value ? 'not-ours' : null;
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): 'sent' | 'gone' | 'refused' {
  try {
    process.kill(pid, signal);
    return 'sent';
  } catch (cause) {
    return codeOf(cause) === 'ESRCH' ? 'gone' : 'refused';
  }
}
