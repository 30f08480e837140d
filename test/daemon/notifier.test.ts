import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { known } from '../../src/core/reading.ts';
import { createNotifier } from '../../src/daemon/notifier.ts';
import { createClock } from '../../src/host/clock.ts';
import type { ExecResult } from '../../src/host/exec.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd } from '../../src/host/systemd/systemd.ts';
import { type CommandRunner, createCommandRunner } from '../../src/host/systemd/transient.ts';
import type { Clock } from '../../src/ports.ts';
import { type EntryBody, entryOf } from '../../src/record/entry.ts';
import { notArmed } from '../../src/words/finding-own.ts';
import { MI } from '../a.ts';
import { evict, soft } from '../act/an-actor.ts';
import { openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { createVirtualClock } from '../kube/virtual-clock.ts';
import { DEADLINE_MS, directory, running, until, write } from './a-daemon.ts';

const DONE: ExecResult = { kind: 'exited', code: 0, stdout: '', stderr: '' };
type Configured = { readonly on: ('evicted' | 'not-armed' | 'finding')[] } | null;
function stage(configured: Configured, run?: CommandRunner) {
  const clock = createVirtualClock();
  return { clock, ...stageOn(clock, configured, run) };
}
function stageOn(clock: Clock, configured: Configured, run: CommandRunner = async () => DONE) {
  const sent: { readonly atMs: number; readonly notice: { readonly [field: string]: unknown } }[] = [];
  const findings: string[] = [];
  const notifier = createNotifier({
    clock,
    node: 'n1',
    run: (command) => {
      sent.push({ atMs: clock.monoMs(), notice: JSON.parse(command.stdin ?? '') });
      return run(command);
    },
  });
  const notify = configured === null ? null : { ...configured, command: ['/bin/mail'], timeoutMs: 10_000 };
  const context = {
    configured: () => notify,
    findings: { raise: ({ text }: { text: string }) => void findings.push(text), clear: () => void findings.splice(0) },
    decisionOf: () => null,
  };
  notifier.follow(context);
  const seen = (body: EntryBody) =>
    notifier.seen(entryOf({ atWallMs: clock.wallMs(), bootId: 'boot', dry: false }, body));
  const found = (id: string, text = id) =>
    seen({ kind: 'note', note: { kind: 'finding', atMs: 0, finding: { id, text } } });
  return { notifier, context, sent, findings, seen, found };
}
const ALL: Configured = { on: ['evicted', 'not-armed', 'finding'] };

describe('notify', () => {
  it.skipIf(!hasDbusDaemon)('runs in a unit also while the bus is not connected yet [needs dbus-daemon]', async () => {
    const fake = await openFakeSystemd();
    const clock = createClock();
    const bus = openSystemBus(clock, fake.daemon.env);
    const { found } = stageOn(clock, ALL, createCommandRunner({ systemd: createSystemd(bus), clock }));
    found('at-the-start');
    await vi.waitFor(() => expect(fake.asked()).toEqual([expect.stringMatching(/^StartTransientUnit /)]), 10_000);
    bus.close();
    await fake.remove();
  });

  it('runs for a proven eviction, with the decision and its outcome, but not for a stop of a shutdown', async () => {
    const { clock, seen, sent } = stage(ALL);
    const decision = evict(soft, 30);
    const stop = { id: 'boot-2', atMs: 0, kind: 'stop-for-shutdown', victim: { ...soft } } as never;
    seen({ kind: 'decision', decision, reasons: [] });
    seen({ kind: 'decision', decision: stop, reasons: [] });
    await clock.advance(5_000);
    expect(sent).toEqual([]);
    const outcome = { of: 'boot-1', atMs: 1, kind: 'ended', via: 'sigterm', releasedBytes: known(300 * MI) } as const;
    seen({ kind: 'outcome', outcome });
    seen({ kind: 'outcome', outcome: { ...outcome, of: 'boot-2' } });
    await clock.advance(5_000);
    expect(sent.map(({ notice }) => notice)).toEqual([
      {
        schema: 1,
        event: 'evicted',
        node: 'n1',
        atWallMs: expect.any(Number),
        text: 'evict shop/web: memory.available 90 MiB is below 100 MiB; ended by sigterm, gave back 300 MiB',
        dropped: 0,
        decision: expect.objectContaining({ id: 'boot-1', victim: expect.objectContaining({ name: 'web' }) }),
        outcome,
      },
    ]);
    expect(sent[0]?.notice['decision']).not.toHaveProperty('ranking');
  });

  it('runs for an eviction of an earlier run once it is known to be one', async () => {
    const { clock, notifier, context, seen, sent } = stage(ALL);
    const decisions = [evict(soft, 30)];
    notifier.follow({ ...context, decisionOf: () => decisions.pop() ?? null });
    const unknown = { of: 'boot-1', atMs: 1, kind: 'unknown', detail: 'the API server is away' } as const;
    seen({ kind: 'outcome', outcome: unknown });
    await clock.advance(5_000);
    expect(sent).toEqual([]);
    const became = { of: 'boot-1', atMs: 1, kind: 'ended', via: 'api', releasedBytes: known(MI) } as const;
    for (const outcome of [became, became]) seen({ kind: 'outcome', outcome });
    await clock.advance(5_000);
    expect(sent.map(({ notice }) => notice['outcome'])).toEqual([became]);
  });

  it('runs for the late end of a survivor, but does not keep all that ever survived', async () => {
    const { clock, seen, sent } = stage(ALL);
    const ids = Array.from({ length: 101 }, (_, i) => `boot-${i + 1}`);
    for (const id of ids) {
      seen({ kind: 'decision', decision: { ...evict(soft, 30), id } as Decision, reasons: [] });
      seen({ kind: 'outcome', outcome: { of: id, atMs: 1, kind: 'survived', left: [], detail: 'it is in state D' } });
    }
    for (const of of ids.filter((_, i) => i < 2))
      seen({ kind: 'outcome', outcome: { of, atMs: 1, kind: 'ended', via: 'sigkill', releasedBytes: known(MI) } });
    await clock.advance(5_000);
    expect(sent.map(({ notice }) => notice['outcome'])).toMatchObject([{ of: 'boot-2' }]);
  });

  it('runs at most once a second; the next event counts those that do not fit in the queue', async () => {
    const { clock, found, sent } = stage(ALL);
    for (let i = 0; i < 30; i++) found(`f${i}`);
    const began = clock.monoMs();
    await clock.advance(3_500);
    expect(sent.map(({ atMs, notice }) => [atMs - began, notice['text'], notice['dropped']])).toEqual([
      [0, 'f0', 10],
      [1_000, 'f1', 0],
      [2_000, 'f2', 0],
      [3_000, 'f3', 0],
    ]);
    await clock.advance(60_000);
    expect(sent).toHaveLength(20);
  });

  it.each([
    ['fails', { kind: 'exited', code: 3, stdout: '', stderr: '' }, 'exit status 3'],
    ['hangs', { kind: 'timed-out' }, 'it timed out'],
    ['is not there', { kind: 'failed', detail: 'spawn /bin/mail ENOENT' }, 'spawn /bin/mail ENOENT'],
  ] as const)(
    'that %s is a finding without a notification of its own, and is cleared once it works',
    async (_, result, how) => {
      let works = false;
      const { clock, found, sent, findings } = stage(ALL, async () => (works ? DONE : result));
      found('f');
      await clock.advance(5_000);
      expect(findings).toEqual([expect.stringContaining(`the notify command failed (${how})`)]);
      found('notify', 'of itself');
      works = true;
      found('g');
      await clock.advance(5_000);
      expect(sent.map(({ notice }) => notice['text'])).toEqual(['f', 'g']);
      expect(findings).toEqual([]);
    },
  );

  it('does not run for the next event while one runs', async () => {
    const { clock, found, sent } = stage(ALL, () => new Promise(() => {}));
    found('f');
    found('g');
    await clock.advance(60_000);
    expect(sent).toHaveLength(1);
  });

  it('runs only for configured events', async () => {
    const { clock, found, sent } = stage({ on: ['not-armed'] });
    const { id, text } = notArmed('logind grants 5s');
    found('f');
    found(id, text);
    await clock.advance(5_000);
    expect(sent.map(({ notice }) => [notice['event'], notice['text']])).toEqual([['not-armed', text]]);
  });

  it('waits while the parts are rebuilt', async () => {
    const { clock, notifier, context, found, sent } = stage(ALL);
    found('f');
    found('g');
    await clock.advance(500);
    notifier.follow(null);
    await clock.advance(60_000);
    expect(sent).toHaveLength(1);
    notifier.follow(context);
    await clock.advance(0);
    expect(sent.map(({ notice }) => notice['text'])).toEqual(['f', 'g']);
  });
});

describe('the daemon', () => {
  const BROKEN = '{ apiVersion: v1, kind: Pod }';
  it('runs the notify command with the event on its standard input, and not in a dry run', async () => {
    const told = join(directory, 'told');
    const notify = `notify: { command: [/usr/bin/tee, -a, ${told}], on: [finding] }`;
    write([notify]);
    writeFileSync(join(directory, 'pods.d/broken.yaml'), BROKEN, { mode: 0o644 });
    await running(async () => {
      await vi.waitFor(
        () => expect(existsSync(told) && readFileSync(told, 'utf8')).toContain('broken.yaml'),
        DEADLINE_MS,
      );
    });
    const first = JSON.parse(readFileSync(told, 'utf8').split('\n')[0] ?? '');
    expect(first).toMatchObject({ schema: 1, event: 'finding', dropped: 0, finding: { id: expect.any(String) } });
    const before = readFileSync(told, 'utf8');
    write([notify, 'dryRun: true']);
    await running(async (report) => {
      await until(report, (now) => now.findings.some(({ text }) => text.includes('broken.yaml')));
    });
    expect(readFileSync(told, 'utf8')).toBe(before);
  });

  it('no longer reports the failure of a command that was taken out of the configuration', async () => {
    const failed = (now: { readonly findings: readonly { readonly id: string }[] }) =>
      now.findings.some(({ id }) => id === 'notify');
    write(['notify: { command: [/nonexistent/notify], on: [finding] }']);
    writeFileSync(join(directory, 'pods.d/broken.yaml'), BROKEN, { mode: 0o644 });
    await running(async (report) => {
      await until(report, failed);
      write([]);
      await until(report, (now) => !failed(now));
    });
  });
});
