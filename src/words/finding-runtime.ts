import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { counted } from './parts.ts';

export const RUNTIME_AWAY = 'runtime-away';
/** `why` names the sockets that were tried. */
export function runtimeAway(why: string): Finding {
  const text = `the container runtime does not answer (${why}): containers are known as of its last answer only`;
  return { id: RUNTIME_AWAY, text: escapeUnsafe(text) };
}

export const RUNTIME_ENTRIES = 'runtime-entries';
export function runtimeEntriesIgnored(count: number): Finding {
  return {
    id: RUNTIME_ENTRIES,
    text: `the container runtime lists ${counted(count, 'object')} with an id or a name that no kubelet gives: ignored`,
  };
}
