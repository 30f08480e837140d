import { existsSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import type { ObservedLook } from '../../src/daemon/observed-look.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext } from '../serve/a-report.ts';
import { aCommand } from './a-command.ts';

/** Where a file called - would be made. */
const HERE = fileURLToPath(new URL('../../-', import.meta.url));
const clock = createClock();
const config = aConfig([aThreshold('memory.available', 100 * MI)]);
const pods = [
  aPod({ namespace: 'shop', name: 'web', workingSetBytes: 500 * MI }),
  aPod({ namespace: 'shop', name: 'db', workingSetBytes: 100 * MI }),
];

/** The n-th look, a second after the one before; memory is short from the third on. */
function lookOf(n: number): ObservedLook {
  const available = n < 2 ? GI : 50 * MI;
  const signals = { 'memory.available': { available, capacity: 4 * GI } };
  const observation = anObservation(5_000 + n * 1_000, signals, { pods: known(pods) });
  const state = initialState('b');
  const { decisions, reasons } = decide(state, observation, config);
  return { schema: 1, node: aContext().node, observation, config, state, decisions, reasons };
}

describe('nodewarden capture', () => {
  const { start, run: nodewarden, serve: daemon, away, until, path, config: named, notRunning } = aCommand();
  let looks: number;
  beforeEach(() => {
    looks = 0;
  });

  const capture = (...args: readonly string[]) => start(['capture', ...named(), ...args]);
  const run = (...args: readonly string[]) => capture(...args).ended;
  const serve = () => daemon({ observe: async () => JSON.stringify(lookOf(looks++)) });

  it('reports that the daemon is not running, with status 3 and nothing written', async () => {
    expect(await run('--output', path('node.yaml'))).toEqual(notRunning());
    expect(existsSync(path('node.yaml'))).toBe(false);
  });

  it.each(['{"known":true,"value":7}', '{"known":true,"value":[{}]}', 'null'])(
    'reports that a look with the pods %s cannot be read, without a stack trace',
    async (given) => {
      await daemon({ observe: async () => `{"schema":1,"node":{},"observation":{"pods":${given}}}` });
      const { code, out, err } = await run();
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toMatch(/^cannot query nodewarden: its answer cannot be read .*\n$/);
    },
  );

  it('prints one look as a scenario, with its origin and how to replay it', async () => {
    await serve();
    const { code, out, err } = await run();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/^# What nodewarden \S+ saw on one node, starting at 2023-11-14T22:13:25\.000Z: 1 sample\.\n/);
    expect(out).toContain('# What is decided:        nodewarden simulate FILE\n');
    expect(out).not.toContain('node-1');
    const [document] = parseDocuments(out, 'x', 'ours').documents;
    expect(document?.value).toMatchObject({ kind: 'EvictionScenario', steps: [{ at: 0 }] });
  });

  it('records for a while into a private file, in which simulate evicts the same pod', async () => {
    await serve();
    const file = path('node.json');
    const { code, out, err } = await run('--duration', '300ms', '--interval', '100ms', '--redact', '--output', file);
    expect({ code, out, err }).toEqual({
      code: 0,
      out: '',
      err: 'recording for 300ms; Ctrl-C ends it and keeps what was recorded\n',
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8')).not.toMatch(/shop|web|uid-db|node-1/);
    const simulated = await nodewarden(['simulate', '-o', 'json', file]);
    const { steps } = JSON.parse(simulated.out).scenarios[0];
    const evicted = steps.map(({ result }: { result: { evicted: { pod: string }[] } }) =>
      result.evicted.map(({ pod }) => pod),
    );
    // shop/db is pod-1, shop/web is pod-2; the live node still had both at the look after the eviction, but what the
    // victim uses there counts as freed.
    expect(evicted).toEqual([[], [], ['ns-1/pod-2'], []]);
    const { out: text } = await nodewarden(['simulate', file]);
    expect(text).toContain('what a victim uses in later samples counts as freed');
    const { out: kept } = await nodewarden(['simulate', '--no-react', file]);
    expect(kept).toContain('a victim keeps its usage in later samples');
  });

  it('takes no longer than it was told to, if samples come late', async () => {
    await daemon({ observe: () => sleep(clock, 350).then(() => JSON.stringify(lookOf(looks++))) });
    const { code, out } = await run('--duration', '1s', '--interval', '100ms', '-o', 'json');
    expect(code).toBe(0);
    // The first one, and then three of the ten that there is time for.
    expect(JSON.parse(out).steps.length).toBeLessThanOrEqual(4);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)('ends on %s with what it has recorded', async (signal) => {
    await serve();
    const recording = capture('--duration', '1h', '--interval', '100ms', '-o', 'json');
    await until(() => looks >= 3);
    recording.kill(signal);
    const { code, out } = await recording.ended;
    expect(code).toBe(0);
    expect(JSON.parse(out).steps.length).toBeGreaterThanOrEqual(2);
  });

  it('keeps what it has recorded when the daemon goes away, and says so', async () => {
    await serve();
    const ended = run('--duration', '1h', '--interval', '100ms', '-o', 'json');
    await until(() => looks >= 2);
    await away();
    const { code, out, err } = await ended;
    expect([1, 3]).toContain(code);
    expect(err).toMatch(/nodewarden is not running|cannot query nodewarden/);
    expect(JSON.parse(out).steps.length).toBeGreaterThanOrEqual(1);
  });

  it('writes to standard output for -, like other commands', async () => {
    await serve();
    const { code, out } = await run('--output', '-');
    // A wrong one would stand in the working directory.
    const isFile = existsSync(HERE);
    rmSync(HERE, { force: true });
    expect({ code, isFile }).toEqual({ code: 0, isFile: false });
    expect(out).toContain('kind: EvictionScenario\n');
  });

  it('leaves other files of the same owner alone', async () => {
    await serve();
    writeFileSync(path('node.yaml.tmp'), 'mine');
    expect((await run('--output', path('node.yaml'))).code).toBe(0);
    expect(readFileSync(path('node.yaml.tmp'), 'utf8')).toBe('mine');
  });

  it('lists every exit status and the minimum interval in its help', async () => {
    const words = (await run('--help')).out.replace(/\s+/g, ' ');
    expect(words).toMatch(/Exit status: 0, 1 when .* cannot be written, 2 for .*, or 3 when the agent is not running/);
    expect(words).toContain('at least 100ms');
  });

  it('replaces neither a link nor a device by its file', async () => {
    await serve();
    const link = path('link.json');
    symlinkSync('/dev/null', link);
    const { code, out, err } = await run('--output', link);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toBe(
      `${link} is not a regular file and would be replaced by one; use instead: --output yaml > ${link}\n`,
    );
    expect(readlinkSync(link)).toBe('/dev/null');
  });

  it('does not record if the file cannot be written', async () => {
    await serve();
    const { code, err } = await run('--duration', '1h', '--output', path('none/node.yaml'));
    expect(code).toBe(1);
    expect(err).toMatch(/^cannot write .*: .*\n$/m);
    expect(looks).toBe(1);
  });

  it.each([
    ['--duration', 'long', 'Use a duration, for example 90s or 10m.'],
    ['--interval', '1ms', 'at least 100ms'],
    ['--output', 'a.jsonl', 'Use .yaml or .json.'],
  ])('refuses %s %s', async (option, value, said) => {
    const { code, err } = await run(option, value);
    expect(code).toBe(2);
    expect(err).toContain(said);
  });
});
