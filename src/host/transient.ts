import { constants } from 'node:os';
import type { Clock } from '../ports.ts';
import { busUp } from './bus.ts';
import { within } from './clock.ts';
import { type ExecResult, run } from './exec.ts';
import type { Systemd, UnitProperty } from './systemd.ts';

type Command = {
  readonly argv: readonly string[];
  readonly timeoutMs: number;
  /** Passed on standard input. */
  readonly stdin?: string;
  /** If it runs as a unit, the kernel kills it above this; absent: no limit. */
  readonly maxMemoryBytes?: number;
  /** At the start of the agent it waits a few seconds until a bus that is there is connected; otherwise it would be a child at once. */
  readonly waitsForBus?: true;
};
/** For commands that notify or record: they run when memory may be short, and must not cause an eviction themselves. */
export const TELLING_MAX_BYTES = 256 * 1024 * 1024;
export type CommandRunner = (command: Command) => Promise<ExecResult>;

/** How long after the start the bus may not be connected yet. */
const START_MS = 5_000;
/** What systemd itself may take in addition to the command's own time. */
const MARGIN_MS = 3_000;
const STOP_SECONDS = 1;
const SIGKILL = constants.signals.SIGKILL;
/** What systemd.exec(5) reports of a program that could not be executed. */
const EXIT_EXEC = 203;
const MAX_OUTPUT_BYTES = 64 * 1024;

/**
 * Runs an operator's command as a transient systemd service, outside the agent's sandbox; its output goes to the
 * journal. If no systemd answers on the bus, it is a child instead. No shell is involved. Never rejects.
 */
export function createCommandRunner(needs: { readonly systemd: Systemd; readonly clock: Clock }): CommandRunner {
  const { systemd, clock } = needs;
  const startedMs = clock.monoMs();
  let started = 0;
  return async (command) => {
    const asChild = (): Promise<ExecResult> => {
      const { argv, timeoutMs, stdin } = command;
      const options = { timeoutMs, maxOutputBytes: MAX_OUTPUT_BYTES };
      return run(argv, stdin === undefined ? options : { ...options, stdin });
    };
    if (command.waitsForBus && systemd.isConnecting())
      await busUp(systemd, clock, startedMs + START_MS - clock.monoMs());
    if (!systemd.isUp()) return asChild();
    started += 1;
    // Includes the time: after a SIGKILL of the agent, the previous one may still run.
    const name = `nodewarden-command-${process.pid}-${Math.floor(clock.monoMs())}-${started}.service`;
    const end = await runAsUnit({ systemd, clock, name, command });
    return end === 'no-systemd' ? asChild() : end;
  };
}

type UnitRun = {
  readonly systemd: Systemd;
  readonly clock: Clock;
  readonly name: string;
  readonly command: Command;
};

async function runAsUnit({ systemd, clock, name, command }: UnitRun): Promise<ExecResult | 'no-systemd'> {
  let jobEnded: () => void = () => undefined;
  const job = new Promise<'ended'>((resolve) => {
    jobEnded = () => resolve('ended');
  });
  // A oneshot's start job ends with its process, so this signal is all there is to wait for.
  const unsubscribe = systemd.whenJobEnds(({ unit }) => {
    if (unit === name) jobEnded();
  });
  try {
    const started = await systemd.startTransient(name, propertiesOf(command));
    if (!started.known) {
      const isNobodyThere = started.detail.includes('ServiceUnknown') || started.detail.includes('NameHasNoOwner');
      return isNobodyThere ? 'no-systemd' : { kind: 'failed', detail: `${started.where}: ${started.detail}` };
    }
    const patienceMs = command.timeoutMs + STOP_SECONDS * 1_000 + MARGIN_MS;
    if ((await within<'ended' | 'late'>(clock, patienceMs, job, () => 'late')) === 'late') {
      await systemd.stop(name);
      return { kind: 'timed-out' };
    }
    return resultOf(systemd, name);
  } finally {
    unsubscribe();
    await systemd.unref(name);
  }
}

async function resultOf(systemd: Systemd, name: string): Promise<ExecResult> {
  const end = await systemd.serviceEnd(name);
  if (!end.known) return { kind: 'failed', detail: `how it ended is not known: ${end.detail}` };
  const { result, exitStatus } = end.value;
  if (result === 'timeout') return { kind: 'timed-out' };
  if (exitStatus === EXIT_EXEC)
    return { kind: 'failed', detail: 'it could not be started: is it there, and executable?' };
  if (result === 'success' || result === 'exit-code') {
    return { kind: 'exited', code: exitStatus, stdout: '', stderr: '' };
  }
  return { kind: 'failed', detail: `systemd says ${result}` };
}

function propertiesOf({ argv, timeoutMs, stdin, maxMemoryBytes }: Command): readonly UnitProperty[] {
  const [program = ''] = argv;
  const isAbsolute = program.startsWith('/');
  // systemd wants an absolute path; env(1) looks a bare name up without a shell.
  const path = isAbsolute ? program : '/usr/bin/env';
  // systemd substitutes environment variables for $NAME in an argument.
  const args = (isAbsolute ? argv : [path, ...argv]).map((arg) => arg.replaceAll('$', '$$$$'));
  const of = (name: string, signature: string, value: UnitProperty['value']['value']): UnitProperty => ({
    name,
    value: { signature, value },
  });
  const input =
    stdin === undefined ? [] : [of('StandardInput', 's', 'data'), of('StandardInputData', 'ay', bytesOf(stdin))];
  const limit = maxMemoryBytes === undefined ? [] : [of('MemoryMax', 't', maxMemoryBytes)];
  return [
    of('Description', 's', `A command of nodewarden's configuration`),
    of('Type', 's', 'oneshot'),
    of('ExecStart', 'a(sasb)', [[path, args, false]]),
    // RuntimeMaxSec does not apply to a oneshot: its whole run is its start.
    of('TimeoutStartUSec', 't', Math.ceil(timeoutMs * 1_000)),
    of('TimeoutStopUSec', 't', STOP_SECONDS * 1_000_000),
    // Whom a command leaves behind must not make it look as if it had taken too long.
    of('KillSignal', 'i', SIGKILL),
    of('CollectMode', 's', 'inactive-or-failed'),
    // Kept loaded until its result is read.
    of('AddRef', 'b', true),
    of('DefaultDependencies', 'b', false),
    ...limit,
    ...input,
  ];
}

const bytesOf = (text: string): readonly number[] => [...new TextEncoder().encode(text)];
