import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { initialState, type State } from '../../src/core/state/state.ts';
import { createClock } from '../../src/host/clock.ts';
import { entryOf, sayEntry } from '../../src/record/entry.ts';
import { pendingLinesPath } from '../../src/record/writing/pending-lines.ts';
import { loadState, stateFilePath } from '../../src/record/writing/state-file.ts';

const clock = createClock();
let directory: string;
let path: string;
const decided = { recordDirectory: '/nowhere', dry: false, measured: 'node' };
const fresh = { ...initialState('boot'), measured: 'node' };

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-state-'));
  path = stateFilePath(directory, false);
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describe('the state file', () => {
  it('returns what this boot left', () => {
    const saved = { ...initialState('boot'), nextDecision: 7, firstMetMs: { 'memory.available/evictionSoft': 12 } };
    writeFileSync(path, JSON.stringify(saved));
    expect(loadState(path, 'boot', clock, decided)).toEqual({
      state: { ...saved, measured: 'node' },
      cutOff: [],
      findings: [],
    });
  });

  it('forgets what was observed of another node, and keeps what is done about pods', () => {
    const observed: Partial<State> = {
      measured: 'another',
      firstMetMs: { 'memory.available/evictionSoft': 12 },
      metValues: { 'memory.available/evictionSoft': '7n' },
      unmetSinceMs: { 'memory.available/evictionSoft': 13 },
      unresolved: ['memory.available/evictionSoft'],
      lastSample: { 'memory.available': { available: 1, capacity: 2, sampledAtMs: 3 } },
      failedLooks: { 'nodefs.available': { count: 1, sinceMs: 2 } },
      proofs: { memory: { decision: 'boot-1', atMs: 1, available: {} } },
      heldBackMs: { memory: 1 },
      vainReclaims: { nodefs: { untilMs: 1, pauseMs: 2 } },
      trail: { 'memory.available': [{ atMs: 1, available: 2 }] },
      dryDropped: ['memory.available/evictionSoft'],
    };
    const done: Partial<State> = {
      nextDecision: 7,
      conditionLastMetMs: { MemoryPressure: 1 },
      ownerKills: [{ ownerKey: 'o', atMs: 1 }],
    };
    writeFileSync(path, JSON.stringify({ ...initialState('boot'), ...done, ...observed }));
    expect(loadState(path, 'boot', clock, { ...decided, dry: true }).state).toEqual({ ...fresh, ...done });
    const same = loadState(path, 'boot', clock, { ...decided, dry: true, measured: 'another' });
    expect(same.state).toEqual({ ...fresh, ...done, ...observed });
  });

  it('of a live agent hides nothing because a dry run dropped it', () => {
    const dropped = { dryDropped: ['memory.available/evictionHard'], dryOverLimit: ['uid'] };
    writeFileSync(path, JSON.stringify({ ...initialState('boot'), ...dropped }));
    expect(loadState(path, 'boot', clock, decided).state).toEqual(fresh);
    expect(loadState(path, 'boot', clock, { ...decided, dry: true }).state).toEqual({ ...fresh, ...dropped });
  });

  it('is fresh without a file', () => {
    expect(loadState(path, 'boot', clock, decided)).toEqual({ state: fresh, cutOff: [], findings: [] });
  });

  it('that is lost within a boot starts with ids that no decision of the boot has', () => {
    const head = { atWallMs: 1, dry: false } as const;
    const decision = { atMs: 1, kind: 'set-condition', condition: 'MemoryPressure', status: true } as const;
    const line = (bootId: string, number: number): string =>
      sayEntry(
        entryOf(
          { ...head, bootId },
          { kind: 'decision', decision: { ...decision, id: `boot-${number}` }, reasons: [] },
        ),
      );
    const note = sayEntry(entryOf({ ...head, bootId: 'boot' }, { kind: 'note', note: { kind: 'started', atMs: 1 } }));
    const here = { ...decided, recordDirectory: directory };
    const next = (): number => loadState(path, 'boot', clock, here).state.nextDecision;
    const record = join(directory, 'record.jsonl');
    writeFileSync(record, line('old', 70));
    expect(next()).toBe(1);
    writeFileSync(record, line('old', 70) + line('boot', 7) + line('boot', 8) + note);
    expect(next()).toBe(9);
    // Of those that stand before more notes than are read first.
    // One of a dry run has another number: history shows both.
    writeFileSync(join(directory, 'record-dry.jsonl'), line('boot', 11));
    expect(next()).toBe(12);
    rmSync(join(directory, 'record-dry.jsonl'));
    writeFileSync(record, line('boot', 8) + note.repeat(20_000));
    expect(next()).toBe(9);
    // Of those in a file that was just rotated.
    writeFileSync(`${record}.1`, line('boot', 10));
    writeFileSync(record, note);
    expect(next()).toBe(11);
    rmSync(record);
    expect(next()).toBe(11);
    writeFileSync(pendingLinesPath(path), line('boot', 12));
    expect(next()).toBe(13);
  });

  it('drops the timers of another boot', () => {
    writeFileSync(
      path,
      JSON.stringify({ ...initialState('old'), firstMetMs: { 'memory.available/evictionSoft': 12 } }),
    );
    expect(loadState(path, 'boot', clock, decided).state).toEqual(fresh);
  });

  it.each([
    ['an empty file', ''],
    ['half a state', JSON.stringify(initialState('boot')).slice(0, 40)],
    ['another schema', '{"schema":2}'],
    ['another kind of JSON', '[1,2,3]'],
    [
      'a state with a wrong field',
      JSON.stringify({ ...initialState('boot'), act: { kind: 'evicting', evictions: [{}] } }),
    ],
  ])('that is %s is set aside and is a finding, and a new state begins', (_, text) => {
    writeFileSync(path, text);
    const { state, findings } = loadState(path, 'boot', clock, decided);
    expect(state).toEqual(fresh);
    expect(findings.map(({ id }) => id)).toEqual(['state-corrupt']);
    const [aside = ''] = readdirSync(directory);
    expect(aside).toMatch(/^state\.json\.corrupt-\d{8}T\d{6}Z$/);
    expect(findings[0]?.text).toContain(aside);
    expect(readFileSync(join(directory, aside), 'utf8')).toBe(text);
  });

  it('is complete whenever its writer is killed', async () => {
    const writer = `
      import { createClock } from '${new URL('../../src/host/clock.ts', import.meta.url).href}';
      import { initialState } from '${new URL('../../src/core/state/state.ts', import.meta.url).href}';
      import { createRecorder } from '${new URL('../../src/record/writing/recorder.ts', import.meta.url).href}';
      const [stateFile, recordDirectory] = process.argv.slice(1);
      const findings = { raise: () => {}, clear: () => {}, all: () => [] };
      const recorder = createRecorder({ clock: createClock(), stateFile, recordDirectory, dry: false, bootId: 'boot', adopted: initialState('boot'), findings, config: () => null });
      const ownerKills = Array.from({ length: 200 }, (_, i) => ({ ownerKey: 'k'.repeat(200), atMs: i }));
      const keep = (n) => recorder.keep({ ...initialState('boot'), nextDecision: n, firstMetMs: { 'memory.available/evictionSoft': n }, ownerKills });
      keep(1);
      keep(2);
      process.stdout.write('writing');
      for (let n = 3; ; n++) keep(n);
    `;
    let last = 0;
    for (let round = 0; round < 8; round++) {
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', '--input-type=module', '-e', writer, '--', path, join(directory, 'record')],
        { stdio: ['ignore', 'pipe', 'inherit'], cwd: fileURLToPath(new URL('../..', import.meta.url)) },
      );
      const isWriting = await Promise.race([
        new Promise((resolve) => child.stdout.once('data', () => resolve(true))),
        new Promise((resolve) => child.once('exit', () => resolve(false))),
      ]);
      expect(isWriting).toBe(true);
      await new Promise<void>((resolve) => {
        clock.after(5 + round * 7, resolve);
      });
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('exit', resolve));
      const { state, findings } = loadState(path, 'boot', clock, decided);
      expect(findings).toEqual([]);
      expect(state.ownerKills).toHaveLength(200);
      last = state.nextDecision;
    }
    expect(last).toBeGreaterThan(1);
  });
});
