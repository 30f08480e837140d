import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { known, type Reading } from '../core/reading.ts';
import type { CgroupRef } from '../ports.ts';
import { isMember } from './cgroup-members.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { codeOf, fileUnknown } from './file-error.ts';

const fileOf = (pid: number): string => `/proc/${pid}/oom_score_adj`;

/** From -1000 to 1000. */
export function readOomScoreAdj(pid: number): Reading<number> {
  try {
    return known(Number(readFileSync(fileOf(pid), 'latin1')));
  } catch (cause) {
    return fileUnknown(fileOf(pid), cause);
  }
}

/** Only for a member of the cgroup: the descriptor belongs to this process, whoever gets its pid later. */
export function writeOomScoreAdj(mounts: CgroupMounts, ref: CgroupRef, pid: number, value: number): Reading<true> {
  try {
    const fd = openSync(fileOf(pid), constants.O_WRONLY);
    try {
      const member = isMember(mounts, ref, pid);
      if (member.known && member.value) writeSync(fd, String(value));
      return known(true);
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    // It ended.
    return codeOf(cause) === 'ESRCH' || codeOf(cause) === 'ENOENT' ? known(true) : fileUnknown(fileOf(pid), cause);
  }
}
