import { DEFAULT_CONFIG_FILE } from '../config/load.ts';
import { sayCause } from '../core/reading.ts';
import { isObject } from '../core/shape.ts';
import type { ObservedLook } from '../daemon/observed-look.ts';
import { sleep } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { type Asked, askDaemon } from '../serve/ask.ts';
import { startCommand } from '../words/own-command.ts';
import { clean } from './print.ts';

export type Failure = Exclude<Asked, { kind: 'answer' }>;

export const OTHER_VERSION: Failure = { kind: 'failed', detail: 'the agent runs another version; restart it' };

/** The daemon to query, and the configuration that was named for it. */
export type Addressee = { readonly socket: string; readonly config?: string | undefined };

/** Prints why the daemon did not answer, and returns the exit status. */
export function fail(asked: Failure, { socket, config = DEFAULT_CONFIG_FILE }: Addressee): 1 | 3 {
  if (asked.kind === 'not-running') {
    const start = startCommand(config === DEFAULT_CONFIG_FILE ? null : config);
    process.stderr.write(
      `${clean(`nodewarden is not running: nothing listens on ${socket}; start it with: ${start}`)}\n`,
    );
    return 3;
  }
  process.stderr.write(`cannot query nodewarden: ${asked.detail}\n`);
  return 1;
}

/** The checked answer. Null, after printing why, if it is incomplete: another version of the daemon may have sent it. */
export function ofAnswer<T>(of: Addressee, make: () => T): T | null {
  try {
    return make();
  } catch (error) {
    const detail = `its answer cannot be read (${clean(sayCause(error))}); if it runs another version, restart it`;
    fail({ kind: 'failed', detail }, of);
    return null;
  }
}

/** The same for a command that asks more than once. */
export async function ofAnswers<T>(of: Addressee, make: () => Promise<T>): Promise<T | null> {
  try {
    return await make();
  } catch (error) {
    return ofAnswer(of, () => {
      throw error;
    });
  }
}

/** The daemon's next look, with every pod. */
export async function askLook(socket: string, clock: Clock): Promise<ObservedLook | Failure> {
  const asked = await askDaemon(socket, { ask: 'observe' }, clock);
  if (asked.kind !== 'answer') return asked;
  return isLook(asked.answer) ? asked.answer : OTHER_VERSION;
}

/** `isReport`, plus whatever every command reads before it prints. */
function isLook(answer: unknown): answer is ObservedLook {
  if (!isObject(answer) || !isObject(answer['node'])) return false;
  return answer['schema'] === 1 && isObject(answer['observation']) && 'pods' in answer['observation'];
}

/** With many files, walking the pods' directories takes this long. After that, what is known has to suffice. */
const MEASURED_MS = 10_000;
const AGAIN_MS = 250;

/**
 * A look with the pods' disk usage measured, if `isWanted`: far from thresholds, their directories are walked only on
 * request. After 10 s the look is returned as it is.
 */
export async function askMeasuredLook(
  socket: string,
  clock: Clock,
  isWanted: (look: ObservedLook) => boolean,
): Promise<ObservedLook | Failure> {
  const untilMs = clock.monoMs() + MEASURED_MS;
  for (;;) {
    const look = await askLook(socket, clock);
    if ('kind' in look || !isWanted(look) || unmeasured(look) === 0 || clock.monoMs() > untilMs) return look;
    await sleep(clock, AGAIN_MS);
  }
}

/** The number of pods whose directories have not been walked yet. */
function unmeasured({ observation: { pods } }: Pick<ObservedLook, 'observation'>): number {
  if (!pods.known) return 0;
  return pods.value.filter(({ usage }) => !usage.disk.known && usage.disk.why === 'not-asked').length;
}
