import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { known } from '../../src/core/reading.ts';
import type { RecordNote } from '../../src/ports.ts';
import { type EntryBody, entryOf, sayEntry } from '../../src/record/entry.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { aConfig, anObservation, aPod, MI } from '../a.ts';
import { anEviction } from '../serve/a-report.ts';
import { aCommand } from './a-command.ts';

const BEGAN = Date.UTC(2026, 0, 31, 12);
const HOUR = 3_600_000;
const note = (said: RecordNote): EntryBody => ({ kind: 'note', note: said });
const STARTED = note({ kind: 'started', atMs: 0 });
const STOPPED = note({ kind: 'stopped', atMs: 0, machine: 'stays' });
const evicted = (id: string, more: object = {}): EntryBody => ({
  kind: 'decision',
  decision: { ...anEviction(id), ...more } as Decision,
  reasons: [],
});
function seen(of: string): EntryBody {
  const pods = known([aPod({ name: 'web', namespace: 'shop', uid: 'uid-web', workingSetBytes: 300 * MI })]);
  const observation = anObservation(1_000, {}, { pods });
  const scenario = scenarioOf({ name: of, observation, config: aConfig([]), acted: null });
  return { kind: 'observation', of: [of], atMs: 1_000, signals: observation.signals, psi: observation.psi, scenario };
}
const relieved = (atMs: number): EntryBody => ({
  kind: 'decision',
  decision: { id: 'c-2', atMs, kind: 'set-condition', condition: 'MemoryPressure', status: false },
  reasons: [],
});
const kill = (count: number, atMs: number): EntryBody =>
  note({ kind: 'kernel-oom-kill', atMs, count, pods: ['shop/job'] });

describe('trial', () => {
  const command = aCommand();
  /** Hours since the first, and the boot; then the entry. */
  function record(...entries: readonly (readonly [number, EntryBody, string?])[]): readonly string[] {
    const directory = command.path('state');
    mkdirSync(directory, { recursive: true });
    const lines = entries.map(([hours, body, bootId = 'boot']) =>
      sayEntry(entryOf({ atWallMs: BEGAN + hours * HOUR, bootId, dry: true }, body)),
    );
    writeFileSync(`${directory}/record-dry.jsonl`, lines.join(''), { mode: 0o640 });
    const config = `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nstateDirectory: ${directory}\n`;
    writeFileSync(command.path('trial.yaml'), config, { mode: 0o644 });
    return ['trial', '--config', command.path('trial.yaml')];
  }

  it('does not say how to arm once an agent that acts has recorded later', async () => {
    const args = record([0, STARTED], [1, STOPPED]);
    const line = (hours: number): string =>
      sayEntry(entryOf({ atWallMs: BEGAN + hours * HOUR, bootId: 'boot', dry: false }, STARTED));
    const acts = (hours: number): void =>
      writeFileSync(`${command.path('state')}/record.jsonl`, line(hours), { mode: 0o640 });
    acts(0.5);
    expect((await command.run(args)).out).toContain('To arm: set dryRun: false');
    acts(2);
    const { out } = await command.run(args);
    expect(out).not.toContain('To arm');
    expect(out).toContain('An agent that acts has run since then: nodewarden status shows what it does.');
  });

  it('shows which pods would have been stopped, how often and for what, across restarts, and what to check', async () => {
    const args = record(
      [0, STARTED],
      [1, evicted('b-1', { takesAlong: ['shop/till'] })],
      [1, seen('b-1')],
      [1.001, kill(1, 4_600)],
      [2, evicted('b-2')],
      [2, seen('b-2')],
      [3, STOPPED],
      [5, note({ kind: 'finding', atMs: 0, finding: { id: 'config', text: 'no file' } }), 'boot-2'],
      [5, STARTED, 'boot-2'],
      [6, evicted('c-1'), 'boot-2'],
      [6, seen('c-1'), 'boot-2'],
      [7, relieved(7_200_000), 'boot-2'],
      // Of the time before: it says nothing about the thresholds.
      [5, note({ kind: 'kernel-oom-kill', atMs: 9, count: 5, pods: [], unwatchedSinceMs: 0 }), 'boot-2'],
      [8, kill(2, 10_800_000), 'boot-2'],
      [
        9,
        note({ kind: 'finding', atMs: 0, finding: { id: 'no-candidate/nodefs.available', text: 'nodefs: nobody' } }),
        'boot-2',
      ],
    );
    const { code, out, err } = await command.run(args);
    expect([code, err]).toEqual([0, '']);
    expect(out).toBe(`Dry run, as recorded from 2026-01-31 12:00:00 UTC to 2026-01-31 21:00:00 UTC: 2 runs of the agent

No dry run was running from 2026-01-31 15:00:00 UTC to 2026-01-31 17:00:00 UTC (2h0m0s).

1 pod would have been stopped
POD       TIMES  FOR                      AT MOST BACK  LAST
shop/web      3  memory.available (hard)  300 MiB       2026-01-31 18:00:00 UTC
A dry run stops no pod, so the same pod is counted at every new crossing of a threshold.

The kernel's OOM killer killed 3 processes (shop/job).

Findings during the dry run
  no file
  nodefs: nobody

Before arming
  shop/web would have been stopped 3 times. If it needs that much, raise its request, and its priority; if it leaks, limit it (MemoryMax=).
  Stopping shop/web also stops shop/till. If that is not wanted, give it a higher priority, or nodewarden.dev/evict-for.
  The kernel's OOM killer killed 2 processes (shop/job) while no pod would have been evicted for memory in the minute before: either a memory limit of their own was reached, or memory.available needs a higher threshold.
  No pod could be evicted for nodefs.available: declare more pods, or check priority, protect and evict-for.
  To arm: set dryRun: false in the configuration (or leave out --dry-run), then look at nodewarden status.
`);
  });

  it('says what is unknown: a record that begins too late, damaged lines, a run without an end', async () => {
    const args = record([0, STARTED], [1, note({ kind: 'running', atMs: 0, pods: [] })], [3, STARTED]);
    writeFileSync(command.path('state/record-dry.jsonl'), '{"schema":1,"torn\n', { flag: 'a' });
    const { out } = await command.run([...args, '--since', '2026-01-30T12:00:00Z']);
    expect(out).toContain(
      'The record begins at 2026-01-31 12:00:00 UTC, later than asked for: what came before is unknown.',
    );
    expect(out).toContain('1 line of the record missing or damaged');
    expect(out).toContain(
      'The run before 2026-01-31 15:00:00 UTC has no recorded end: up to 2h0m0s before that may not have been observed.',
    );
    expect(out).toContain('No pod would have been stopped.\n');
    expect(out).toContain('The record shows no threshold that was met.');
  });

  it('says so if there was no dry run', async () => {
    const { code, out } = await command.run([...record(), '--since', '2h']);
    expect([code, out]).toEqual([0, expect.stringMatching(/^No dry run in the record under .*dryRun: true/)]);
  });

  it('does not say so if a run that began before may have gone on with nothing to record', async () => {
    const since = async (args: readonly string[]) =>
      (await command.run([...args, '--since', '2026-02-01T12:00:00Z'])).out;
    expect(await since(record([0, STARTED], [1, note({ kind: 'running', atMs: 0, pods: [] })]))).toMatch(
      /^Nothing is recorded under .* since 2026-02-01 12:00:00 UTC\. The dry run before, last recorded at 2026-01-31 13:00:00 UTC, has no recorded end: if it has run since \(see: nodewarden status\), it has decided nothing\.\n$/,
    );
    expect(await since(record([0, STARTED], [1, STOPPED]))).toMatch(/^No dry run in the record/);
  });

  it('does not say so if the record cannot be read', async () => {
    const args = record();
    rmSync(command.path('state/record-dry.jsonl'));
    mkdirSync(command.path('state/record-dry.jsonl'));
    expect(await command.run(args)).toEqual({
      code: 1,
      out: '',
      err: `not read: ${command.path('state/record-dry.jsonl')}: not a regular file\n`,
    });
    writeFileSync(
      command.path('state/record-dry.jsonl.1'),
      sayEntry(entryOf({ atWallMs: BEGAN, bootId: 'boot', dry: true }, STARTED)),
    );
    expect((await command.run(args)).out).toContain('Part of the record could not be read: what it holds is unknown.');
  });

  it('prints JSON on request, which includes victims within their request', async () => {
    const within = { by: 'over-request', value: known(false) };
    const ranking = [{ uid: 'uid-web', values: [within], decidedBy: null }];
    const { out } = await command.run([...record([0, STARTED], [1, evicted('b-1', { ranking })]), '-o', 'json']);
    expect(JSON.parse(out)).toMatchObject({
      schema: 1,
      isWhole: true,
      runs: [{ bootId: 'boot', fromWallMs: BEGAN, toWallMs: null, lastEntryWallMs: BEGAN + HOUR }],
      stops: [
        { pod: 'shop/web', causes: [{ signal: 'memory.available', kind: 'hard', withinRequest: 1, atMost: null }] },
      ],
      advice: [{ code: 'within-request', pod: 'shop/web', signal: 'memory.available', times: 1 }],
    });
  });
});
