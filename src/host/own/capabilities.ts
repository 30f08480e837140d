import { known, type Reading, unknown } from '../../core/reading.ts';
import { readText } from '../files.ts';

const STATUS_BYTES = 64 * 1024;
const SYS_RESOURCE = 24n;

/** Whether a process has CAP_SYS_RESOURCE, without which oom_score_adj cannot be lowered. */
export function hasSysResource(pid: number, proc = '/proc'): Reading<boolean> {
  const where = `${proc}/${pid}/status`;
  const text = readText(where, STATUS_BYTES);
  if (!text.known) return text;
  const mask = /^CapEff:\t([0-9a-f]{16})$/m.exec(text.value)?.[1];
  if (mask === undefined) return unknown('malformed', where, 'no line CapEff');
  return known(((BigInt(`0x${mask}`) >> SYS_RESOURCE) & 1n) === 1n);
}
