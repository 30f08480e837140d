import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { known, type Reading } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { isMember } from '../cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../cgroup/cgroup-mounts.ts';
import { codeOf, fileUnknown } from '../file-error.ts';

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

type Scores = { readonly ref: CgroupRef; readonly value: number; readonly pids: readonly number[] };

/**
 * The same as a program, for where this process may not write: a directory that is entered belongs to this process, whoever
 * gets its pid later. Exits with 1 if a value was refused, or its process has just ended.
 */
export function oomScoreCommand(
  mounts: CgroupMounts,
  scores: readonly Scores[],
): { readonly argv: readonly string[]; readonly stdin: string } {
  const lines = scores.map(({ ref, value, pids }) => `${value} ${pids.join(',')} ${ref.path}\n`);
  return { argv: ['/bin/sh', '-c', SET, 'sh', mounts.version === 1 ? 'memory' : ''], stdin: lines.join('') };
}

// Of a process whose main thread has ended, version 1 says only by its other threads where it is.
const SET = `
status=0
isMember() {
  for file in cgroup task/*/cgroup; do
    while IFS= read -r line; do
      line=\${line#*:}
      case ",\${line%%:*}," in *",$controller,"*) ;; *) continue ;; esac
      case "\${line#*:}" in "$top" | "$top"/*) return 0 ;; esac
    done < "$file"
  done
  return 1
}
controller=$1
while IFS= read -r group; do
  value=\${group%% *}
  rest=\${group#* }
  top=\${rest#* }
  IFS=,
  for pid in \${rest%% *}; do
    cd "/proc/$pid" 2> /dev/null && isMember 2> /dev/null || continue
    echo "$value" > oom_score_adj || status=1
  done
done
exit "$status"`;
