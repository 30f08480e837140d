import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { countPods, sayNames } from './phrases.ts';

/** About the agent itself: its configuration, files and locks. */

export const CONFIG = 'config';
/** `problem`: the first one in the file. */
export function notReloaded(problem: string): Finding {
  return { id: CONFIG, text: `the configuration was not reloaded, and the running one stays in force: ${problem}` };
}
/** Of a good one. `file` null: the defaults. */
export const configInForce = (file: string | null): string => `the configuration ${sayFile(file)} is in force`;
export function configPending(file: string | null): string {
  return `the configuration ${sayFile(file)} was read; it comes into force once no eviction, reclaim or shutdown is in progress`;
}
const sayFile = (file: string | null): string => file ?? '(all defaults)';
export function modeNotReloaded(mode: string): Finding {
  return { id: CONFIG, text: `mode ${mode} needs a restart; the running configuration stays in force` };
}
/** What the agent did about pods is in it. */
export function runtimeDirectoryNotReloaded(former: string, given: string): Finding {
  const text = `runtimeDirectory ${given} needs a restart; the running configuration stays in force. After the restart, units that an eviction holds down stay down, unless nodewarden release-held starts them before, with the agent stopped and ${former} in the file`;
  return { id: CONFIG, text };
}
/** `why`: what cannot be opened. */
export function notUsable(why: string, isDryRun: boolean): Finding {
  const how = isDryRun ? ', in dry run' : '';
  return {
    id: CONFIG,
    text: `the configuration was read but cannot be used, and the former one stays in force${how} until the next reload: ${why}`,
  };
}
/** At a start. `savedAt`: when the last good one was kept, in `keptIn`. */
export function lastGoodInForce(savedAt: string, keptIn: string, problem: string): Finding {
  const text = `the configuration is refused, and the last good one (of ${savedAt}, kept in ${keptIn}) is in force: ${problem}`;
  return { id: CONFIG, text };
}

export const SOCKET = 'socket';
export function socketNotServed(where: string, detail: string): Finding {
  return { id: SOCKET, text: `the status socket cannot be served: ${where}: ${detail}` };
}

export const HTTP = 'http';
/** `detail`: with the code of the system. */
export function httpNotServed(where: string, detail: string): Finding {
  const [, remedy] = HTTP_REMEDIES.find(([code]) => detail.includes(code)) ?? [];
  return { id: HTTP, text: `http does not listen on ${where}: ${detail}${remedy === undefined ? '' : `; ${remedy}`}` };
}
const HTTP_REMEDIES = [
  ['EADDRINUSE', 'set http.listen to another port, or stop what listens there (ss -ltnp shows it)'],
  ['EADDRNOTAVAIL', 'set http.listen to an address of this machine'],
  ['EACCES', 'set http.listen to a port above 1023'],
  ['EAFNOSUPPORT', 'its unit has no network: install the drop-in /usr/share/nodewarden/http.conf, which says how'],
] as const;

export const NOT_ARMED = 'shutdown-not-armed';
export const notArmed = (why: string): Finding => ({ id: NOT_ARMED, text: `the shutdown is not armed: ${why}` });

export const NOTIFY = 'notify';
export function notifyFailed(how: string): Finding {
  return {
    id: NOTIFY,
    text: `the notify command failed (${how}): what it was run for is in the journal and the record`,
  };
}

export const KUBELET_NOT_ARMED = 'kubelet-not-armed';
export function kubeletNotArmed(): Finding {
  const text =
    'the kubelet is configured with shutdown grace periods, but logind lists no lock of it: nodewarden stops the pods instead. To arm the kubelet, restart it';
  return { id: KUBELET_NOT_ARMED, text };
}
export const KUBELET_LET_GO = 'kubelet-let-go';
export function kubeletLetGo(pods: readonly string[]): Finding {
  const text = `the kubelet has released its shutdown lock, but the API still shows ${countPods(pods.length)}: ${escapeUnsafe(sayNames(pods))}; whatever is still running is stopped with nodewarden`;
  return { id: KUBELET_LET_GO, text };
}

export const DIRECTORY_NOT_MADE = 'own-directory-not-made';
export function directoryNotMade(directory: string, why: string): Finding {
  const text = `${directory} was removed while the agent ran, and cannot be recreated (${why}): run systemctl restart nodewarden`;
  return { id: DIRECTORY_NOT_MADE, text };
}
export const lockNotMade = (why: string): Finding => ({ id: DIRECTORY_NOT_MADE, text: why });
/** Not cleared: someone should find out what removed it. */
export function directoryRemoved(
  directory: string,
  {
    times,
    last,
    recreated,
  }: { readonly times: number; readonly last: string; readonly recreated: 'from-memory' | 'from-open-files' },
): Finding {
  const when = times === 1 ? `at ${last}` : `${times} times, last at ${last}`;
  const then = recreated === 'from-memory' ? 'from memory' : 'from the open record';
  return {
    id: `own-directory/${directory}`,
    text: `${directory}, or a file in it, was removed while the agent ran (${when}) and was recreated ${then}`,
  };
}

export const STATE_FILE = 'state-file';
export function stateNotSaved(path: string, detail: string): Finding {
  const then = 'a restart would forget timers and evictions in progress';
  return { id: STATE_FILE, text: `${path} cannot be written (${detail}): ${then}` };
}
export function stateUnusable(path: string, why: string, kept: string): Finding {
  return {
    id: 'state-corrupt',
    text: `${path} cannot be used (${why}): ${kept}; timers and evictions in progress start over`,
  };
}
/** From the state that the last boot left. */
export const SHUTDOWN_INTERRUPTED: Finding = {
  id: 'state/0',
  text: 'the last boot ended during a shutdown phase, before all phases were done',
};

export const INTENT_FILE = 'intent-file';
export function intentsNotSaved(path: string, detail: string): Finding {
  const then = 'if the agent is killed now, the record may lack a decision or its outcome';
  return { id: INTENT_FILE, text: `${path} cannot be written (${detail}): ${then}` };
}

export const RECORD = 'record';
export function recordRefused(where: string, detail: string, most: number): Finding {
  const text = `${where} takes no entries (${detail}): up to ${most} are kept in memory until it does`;
  return { id: RECORD, text };
}
export function recordHangs(ms: number): Finding {
  return {
    id: RECORD,
    text: `the disk of the record has not answered for ${sayDuration(ms)}: entries are kept in memory`,
  };
}
export function recordHeldUp(ms: number): Finding {
  const why = 'file systems that do not answer hold all threads that access files';
  const text = `the record has not been written for ${sayDuration(ms)}, because ${why}: entries are kept in memory`;
  return { id: RECORD, text };
}
export function recordDamaged(line: number, keptAs: string): Finding {
  return {
    id: 'record-corrupt',
    text: `the record was damaged at line ${line}: it is kept as ${keptAs}, and a new one was started`,
  };
}

const LAST_BOOT = 'last-boot';
export function lastBootUnclean(sentence: string): Finding {
  return { id: LAST_BOOT, text: `${sentence}; see: nodewarden history --shutdowns` };
}
export function lastBootUnreadable(where: string, detail: string): Finding {
  return { id: LAST_BOOT, text: `${where} cannot be read: ${detail}; how the last boot ended is not known` };
}

export function tooManyFindings(most: number): Finding {
  return {
    id: 'too-many-findings',
    text: `there were more than ${most} findings at once: later ones may not be shown`,
  };
}

export const NO_PSI = 'this kernel has no pressure stall information (/proc/pressure); boot it with psi=1';
