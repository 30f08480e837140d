import { constants } from 'node:os';
import type { Clock } from '../../ports.ts';
import { sleep, within } from '../clock.ts';
import { type ExecResult, run } from '../exec.ts';
import { busUp } from './bus.ts';
import type { Systemd, UnitProperty } from './systemd.ts';
import { openUnitOutput, sweepUnitOutput, type UnitOutput } from './unit-output.ts';

type Command = {
  readonly argv: readonly string[];
  readonly timeoutMs: number;
  /** Passed on standard input. */
  readonly stdin?: string;
  /** If it runs as a unit, the kernel kills it above this; absent: no limit. */
  readonly maxMemoryBytes?: number;
  /** At the start of the agent it waits a few seconds until a bus that is there is connected; otherwise it would be a child at once. */
  readonly waitsForBus?: true;
  /** While a unit of this name runs, which an earlier run of the agent may have left, it waits for its end. Absent: it has a new one. */
  readonly name?: string;
  /** What it prints is returned, which a unit prints into files in this directory, and the journal does not hear of it. Absent: to the journal. */
  readonly printsIn?: string;
};
/** For commands that notify or record: they run when memory may be short, and must not cause an eviction themselves. */
export const TELLING_MAX_BYTES = 256 * 1024 * 1024;
export type CommandRunner = (command: Command) => Promise<ExecResult>;

const PREFIX = 'nodewarden-command-';
/** The unit of a command, whichever agent runs it: nothing depends on it. */
export const isCommand = (unit: string): boolean => unit.startsWith(PREFIX);

/** How long after the start the bus may not be connected yet. */
const START_MS = 5_000;
/** What systemd itself may take in addition to the command's own time. */
const MARGIN_MS = 3_000;
const STOP_SECONDS = 1;
const SIGKILL = constants.signals.SIGKILL;
/** What systemd.exec(5) reports of a program that could not be executed. */
const EXIT_EXEC = 203;
const MAX_OUTPUT_BYTES = 64 * 1024;
const AGAIN_MS = 100;
const LOG_WARNING = 4;

/**
 * Runs an operator's command as a transient systemd service, outside the agent's sandbox; its output goes to the
 * journal, unless it is asked for. If no systemd answers on the bus, it is a child instead. No shell is involved. Never rejects.
 */
export function createCommandRunner(needs: { readonly systemd: Systemd; readonly clock: Clock }): CommandRunner {
  const { systemd, clock } = needs;
  const startedMs = clock.monoMs();
  let started = 0;
  const swept = new Set<string>();
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
    const own = command.name ?? `${process.pid}-${Math.floor(clock.monoMs())}-${started}`;
    const unit = { systemd, clock, name: `${PREFIX}${own}.service`, command };
    const { printsIn } = command;
    if (printsIn !== undefined && !swept.has(printsIn)) sweepUnitOutput(printsIn);
    if (printsIn !== undefined) swept.add(printsIn);
    const end = await (printsIn === undefined ? runAsUnit(unit, null) : runPrinting(unit, printsIn));
    return end === 'no-systemd' ? asChild() : end;
  };
}

type UnitRun = {
  readonly systemd: Systemd;
  readonly clock: Clock;
  readonly name: string;
  readonly command: Command;
};

async function runPrinting(unit: UnitRun, directory: string): Promise<ExecResult | 'no-systemd'> {
  const output = openUnitOutput(directory, MAX_OUTPUT_BYTES);
  if (!output.known) return { kind: 'failed', detail: `${output.where}: ${output.detail}` };
  try {
    const end = await runAsUnit(unit, output.value);
    if (end === 'no-systemd' || end.kind !== 'exited') return end;
    const printed = output.value.read();
    return printed.known ? { ...end, ...printed.value } : { kind: 'failed', detail: printed.detail };
  } finally {
    output.value.remove();
  }
}

async function runAsUnit(
  { systemd, clock, name, command }: UnitRun,
  output: UnitOutput | null,
): Promise<ExecResult | 'no-systemd'> {
  const ended = new Set<string>();
  let heard: () => void = () => undefined;
  // A oneshot's start job ends with its process, so this signal is all there is to wait for. It may come before its answer.
  const unsubscribe = systemd.whenJobEnds(({ unit, job }) => {
    if (unit === name) ended.add(job);
    heard();
  });
  try {
    const patienceMs = command.timeoutMs + STOP_SECONDS * 1_000 + MARGIN_MS;
    const startByMs = clock.monoMs() + patienceMs;
    const properties = propertiesOf(command, output);
    let started = await systemd.startTransient(name, properties);
    while (!started.known && started.detail.includes('UnitExists')) {
      if (clock.monoMs() >= startByMs) return { kind: 'failed', detail: 'an earlier run of it has not ended' };
      await sleep(clock, AGAIN_MS);
      started = await systemd.startTransient(name, properties);
    }
    if (!started.known) {
      const isNobodyThere = started.detail.includes('ServiceUnknown') || started.detail.includes('NameHasNoOwner');
      return isNobodyThere ? 'no-systemd' : { kind: 'failed', detail: `${started.where}: ${started.detail}` };
    }
    const { value: job } = started;
    const end = new Promise<'ended'>((resolve) => {
      heard = () => {
        if (ended.has(job)) resolve('ended');
      };
      heard();
    });
    if ((await within<'ended' | 'late'>(clock, patienceMs, end, () => 'late')) === 'late') {
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

function propertiesOf(
  { argv, timeoutMs, stdin, maxMemoryBytes }: Command,
  output: UnitOutput | null,
): readonly UnitProperty[] {
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
  const prints =
    output === null
      ? []
      : [
          of('StandardOutputFile', 's', output.stdout),
          of('StandardErrorFile', 's', output.stderr),
          // It may be asked every few seconds: systemd does not log each start and end.
          of('LogLevelMax', 'i', LOG_WARNING),
        ];
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
    ...prints,
  ];
}

const bytesOf = (text: string): readonly number[] => [...new TextEncoder().encode(text)];
