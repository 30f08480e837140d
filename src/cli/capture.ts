import { Command, InvalidArgumentError, Option } from 'commander';
import pkg from '../../package.json' with { type: 'json' };
import { parseDuration, sayDuration } from '../core/units/duration.ts';
import type { ObservedLook } from '../daemon/observed-look.ts';
import { yamlText } from '../document/yaml-text.ts';
import { createClock } from '../host/clock.ts';
import { isSpecialFile, writeAtomic } from '../host/files.ts';
import type { Clock } from '../ports.ts';
import { type Capture, captureOf } from '../record/scenarios/capture-of.ts';
import { redactLooks } from '../record/scenarios/redact.ts';
import { counted } from '../words/phrases.ts';
import { askLook, askMeasuredLook, type Failure, fail, ofAnswers } from './daemon-answer.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { clean } from './print.ts';

type Options = {
  readonly config?: string;
  readonly duration: number;
  readonly interval: number;
  readonly redact?: true;
  readonly output: Output;
};
/** `path` null: standard output. */
type Output = { readonly format: 'yaml' | 'json'; readonly path: string | null };

const HELP = `
Examples:
  nodewarden capture > node.yaml                                    one sample
  nodewarden capture --duration 10m --redact --output node.json     one sample per second, names redacted
  nodewarden simulate node.json                                     what the agent would decide
  nodewarden simulate node.json --config stricter.yaml              what another configuration would change

Ctrl-C and SIGTERM end a long capture and keep what was recorded.
Exit status: 0, 1 when nothing could be recorded or the file cannot be written, 2 for a usage error, or 3 when the
agent is not running.`;

const OWNER_ONLY = 0o600;
const LEAST_INTERVAL_MS = 100;
/**
 * The maximum size of the looks as JSON: what simulate accepts as YAML (16 MiB, which is longer than the JSON), and
 * what this process can hold.
 */
const MOST_CHARS: { readonly [F in Output['format']]: number } = { yaml: 10 * 1024 * 1024, json: 48 * 1024 * 1024 };

export function captureCommand(): Command {
  return new Command('capture')
    .description('Save what the agent sees on this node as a scenario for simulate and explain')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .addOption(
      new Option('-d, --duration <time>', 'Record for this long').argParser(parseTime).default(0, 'one sample'),
    )
    .addOption(
      new Option('-i, --interval <time>', 'Interval between samples, at least 100ms')
        .argParser(parseInterval)
        .default(1_000, '1s'),
    )
    .option('--redact', 'Replace uids and all names of pods, namespaces, containers, volumes and owners')
    .addOption(
      new Option('-o, --output <where>', 'Print yaml or json (-: yaml), or write a file (.json, else YAML)')
        .argParser(parseOutput)
        .default({ format: 'yaml', path: null }, 'yaml'),
    )
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const stop = new AbortController();
      // Only once, so that a second signal ends the process at once.
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
      const { socket } = daemonPathsOf(options.config ?? null);
      const of = { socket, config: options.config };
      process.exitCode = (await ofAnswers(of, () => run(options, socket, createClock(), stop.signal))) ?? 1;
    });
}

async function run(options: Options, socket: string, clock: Clock, stop: AbortSignal): Promise<number> {
  const { duration, output, config } = options;
  const of = { socket, config };
  if (duration > 0) tell(`recording for ${sayDuration(duration)}; Ctrl-C ends it and keeps what was recorded`);
  const recorded = await record(socket, options, clock, stop);
  const { looks, end } = recorded;
  const [first] = looks;
  if (first === undefined) {
    if (end.kind === 'asked') return fail(end.failure, of);
    tell('interrupted before the first sample: nothing was written');
    return 1;
  }
  if (looks.some(({ config }) => JSON.stringify(config) !== JSON.stringify(first.config))) {
    tell('the configuration changed during the capture: the file contains the first one');
  }
  if (end.kind === 'unwritable') return 1;
  if (end.kind === 'full') {
    const hint = output.format === 'yaml' ? '--output FILE.json or ' : '';
    tell(`ended after ${looks.length} samples: the file is full; to record for longer, use ${hint}a longer --interval`);
  }
  const text = textOf(options, looks);
  if (text === null) {
    tell('the pods were unknown in every sample: nothing was written');
    return 1;
  }
  const status = end.kind === 'asked' ? fail(end.failure, of) : 0;
  return put(text, output) ? status : 1;
}

type End = { readonly kind: 'done' | 'full' | 'unwritable' } | { readonly kind: 'asked'; readonly failure: Failure };
type Recorded = { readonly looks: readonly ObservedLook[]; readonly end: End };

/** One sample per interval, until the duration is over, the file is full, it is stopped, or the daemon does not answer. */
async function record(socket: string, options: Options, clock: Clock, stop: AbortSignal): Promise<Recorded> {
  const { duration, interval, output } = options;
  const looks: ObservedLook[] = [];
  let chars = 0;
  let startMs = clock.monoMs();
  for (let n = 0; ; ) {
    await sleepUntil(startMs + n * interval, clock, stop);
    if (stop.aborted) return { looks, end: { kind: 'done' } };
    const isFirst = looks.length === 0;
    // Disk usage of pods is measured only once somebody has asked for it.
    const look = await (isFirst ? askMeasuredLook(socket, clock, () => !stop.aborted) : askLook(socket, clock));
    if ('kind' in look) return { looks, end: { kind: 'asked', failure: look } };
    chars += JSON.stringify(captureOf('', [look], look.config)).length;
    if (!isFirst && chars > MOST_CHARS[output.format]) return { looks, end: { kind: 'full' } };
    looks.push(look);
    // The first one may take seconds, until the disks are measured.
    if (isFirst) startMs = clock.monoMs();
    // A late one takes the place of those whose time is over.
    n = Math.max(n + 1, Math.floor((clock.monoMs() - startMs) / interval));
    if (n * interval > duration) return { looks, end: { kind: 'done' } };
    // Checked first, so that nothing is recorded in vain.
    const isWritable = !isFirst || output.path === null || put(textOf(options, looks) ?? '', output);
    if (!isWritable) return { looks, end: { kind: 'unwritable' } };
  }
}

function sleepUntil(atMs: number, clock: Clock, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      stop.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(stop.aborted ? 0 : Math.max(0, atMs - clock.monoMs()), end);
    stop.addEventListener('abort', end);
  });
}

function textOf({ redact, output, interval }: Options, looks: readonly ObservedLook[]): string | null {
  const [first] = looks;
  if (first === undefined) return null;
  const capture = captureOf('capture', redact ? redactLooks(looks) : looks, first.config);
  if (capture === null) return null;
  if (output.format === 'json') return `${JSON.stringify(capture)}\n`;
  return `${heading(capture, interval, redact === true)}${yamlText(capture)}`;
}

function heading({ start, steps }: Capture, interval: number, isRedacted: boolean): string {
  const apart = steps.length > 1 ? `, ${sayDuration(interval)} apart` : '';
  const names = isRedacted ? ', with every name replaced' : '';
  return [
    `What nodewarden ${pkg.version} saw on one node, starting at ${start}: ${counted(steps.length, 'sample')}${apart}${names}.`,
    'Grace periods that run at the first sample are not included.',
    'What is decided:        nodewarden simulate FILE',
    'With other thresholds:  nodewarden simulate FILE --config OTHER.yaml',
    'Why, for one sample:    nodewarden explain --scenario FILE --step 1',
  ]
    .map((line) => `# ${line}\n`)
    .join('');
}

function put(text: string, { path }: Output): boolean {
  if (path === null) {
    process.stdout.write(text);
    return true;
  }
  // The superuser could replace /dev/stdout or /dev/null for the whole machine.
  if (isSpecialFile(path)) {
    tell(`${path} is not a regular file and would be replaced by one; use instead: --output yaml > ${path}`);
    return false;
  }
  const written = writeAtomic(path, text, OWNER_ONLY);
  if (!written.known) tell(`cannot write ${written.where}: ${written.detail}`);
  return written.known;
}

function tell(line: string): void {
  process.stderr.write(`${clean(line)}\n`);
}

function parseTime(text: string): number {
  const parsed = parseDuration(text);
  if (parsed.ok && parsed.duration.ms >= 0) return parsed.duration.ms;
  throw new InvalidArgumentError('Use a duration, for example 90s or 10m.');
}

function parseInterval(text: string): number {
  const ms = parseTime(text);
  if (ms < LEAST_INTERVAL_MS) throw new InvalidArgumentError('Use at least 100ms.');
  return ms;
}

function parseOutput(text: string): Output {
  if (text === 'yaml' || text === 'json') return { format: text, path: null };
  if (text === '-') return { format: 'yaml', path: null };
  if (text.endsWith('.json')) return { format: 'json', path: text };
  if (/\.(jsonl|gz)$/.test(text)) throw new InvalidArgumentError('Use .yaml or .json.');
  return { format: 'yaml', path: text };
}
