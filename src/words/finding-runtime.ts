import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { counted } from './phrases.ts';

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
    text: `the container runtime lists ${counted(count, 'object')} with an id or a name that no kubelet assigns: ignored`,
  };
}

export const RUNTIME_LAYERS = 'runtime-layers';
export function layersUnknown(why: string): Finding {
  const text = `the container runtime does not report what containers have written (${why}): for a full disk, a pod counts with no more than its logs and volumes`;
  return { id: RUNTIME_LAYERS, text: escapeUnsafe(text) };
}

export const RUNTIME_RECLAIM = 'reclaim/runtime';
/** `problem`: a sentence; it may hold what the runtime says. */
export function runtimeReclaimFailed(problem: string): Finding {
  const text = `not all dead containers and unused images could be removed: ${problem}`;
  return { id: RUNTIME_RECLAIM, text: escapeUnsafe(text) };
}
export const NO_CONTAINER = 'the runtime lists no container, so no image is known to be unused';
export const SANDBOX_UNKNOWN =
  'the runtime does not say which image the sandboxes use, and without that image no pod can start';
export function imagesTooYoung(count: number, minAgeMs: number): string {
  const verb = count === 1 ? 'stays' : 'stay';
  return `${counted(count, 'unused image')} ${verb}: known for less than ${sayDuration(minAgeMs)} (imageMinimumGCAge)`;
}
