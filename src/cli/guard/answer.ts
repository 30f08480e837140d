import { CommanderError } from 'commander';
import type { GuardEffective } from '../../config/guard/effective.ts';
import { DEFAULT_GUARD_FILE, guardConfigOf } from '../../config/guard/load.ts';
import { readConfigFile } from '../../config/source.ts';
import { sayProblem } from '../../document/problem.ts';
import { createClock } from '../../host/clock.ts';
import { kindOf } from '../../host/files.ts';
import { type Asked, askDaemon, type Request } from '../../serve/ask.ts';
import { shellWord } from '../../words/own-command.ts';
import { clean } from '../print.ts';

const DEFAULT_SOCKET = '/run/nodewarden-guard/guard.sock';
/** As whom nodewarden-guard.service runs: its socket is believed as root's own. */
export const GUARD_USER = 'nodewarden-guard';

const UNIT_FILE = '/usr/lib/systemd/system/nodewarden-guard.service';

export type GuardPlaces = Pick<GuardEffective, 'socket' | 'stateDirectory'>;
const DEFAULT_PLACES: GuardPlaces = { socket: DEFAULT_SOCKET, stateDirectory: '/var/lib/nodewarden-guard' };

export const guardSocketOf = (configFile: string | null): string => guardPlacesOf(configFile).socket;

/** What a configuration of the guard names; null = the file at the default path, if there is one. */
export function guardPlacesOf(configFile: string | null): GuardPlaces {
  const file = configFile ?? DEFAULT_GUARD_FILE;
  const text = readConfigFile(file, 'anybody');
  if (text === null && configFile === null) return DEFAULT_PLACES;
  const { effective, problems } =
    typeof text === 'string'
      ? guardConfigOf(text, file, undefined, 'anybody')
      : { effective: null, problems: text === null ? [] : [text] };
  if (effective !== null) return effective;
  if (text === null) process.stderr.write(`${clean(file)} does not exist\n`);
  for (const problem of problems) process.stderr.write(`${clean(sayProblem(problem))}\n`);
  process.stderr.write('without it, the socket and the record of the guard are unknown\n');
  throw new CommanderError(2, 'commander.noPlaces', 'the configuration names no socket');
}

/** The guard's answer, if it is one; a number: there is none, why was printed, and this is the exit status. */
export async function askGuard<R>(
  configFile: string | null,
  request: Request,
  isAnswer: (answer: unknown) => answer is R,
): Promise<R | 1 | 3> {
  const socket = guardSocketOf(configFile);
  const asked = await askDaemon(socket, request, createClock(), { user: GUARD_USER });
  if (asked.kind !== 'answer') return failGuard(asked, socket, configFile);
  return isAnswer(asked.answer) ? asked.answer : failGuard(OTHER_GUARD, socket, configFile);
}

/** Prints why the guard did not answer, and returns the exit status. */
export function failGuard(asked: Exclude<Asked, { kind: 'answer' }>, socket: string, configFile: string | null): 1 | 3 {
  if (asked.kind === 'not-running') {
    const isInstalled = (configFile ?? DEFAULT_GUARD_FILE) === DEFAULT_GUARD_FILE && kindOf(UNIT_FILE) === 'file';
    const start = isInstalled
      ? 'systemctl start nodewarden-guard'
      : `nodewarden guard run --config ${shellWord(configFile ?? DEFAULT_GUARD_FILE)}`;
    process.stderr.write(`${clean(`no guard runs here: nothing listens on ${socket}; start it with: ${start}`)}\n`);
    return 3;
  }
  process.stderr.write(`cannot query the guard: ${clean(asked.detail)}\n`);
  return 1;
}

export const OTHER_GUARD = { kind: 'failed', detail: 'it runs another version; restart it' } as const;
