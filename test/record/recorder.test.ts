import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { initialState, type State } from '../../src/core/state.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { createClock } from '../../src/host/clock.ts';
import type { Findings } from '../../src/ports.ts';
import { joinDecisions, type RecordEntry } from '../../src/record/entry.ts';
import { createFindings } from '../../src/record/findings.ts';
import { readRecord } from '../../src/record/record-file.ts';
import { createRecorder, createRecorders, type OpenRecorder } from '../../src/record/recorder.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const isRoot = process.getuid?.() === 0;
const hasLoop = existsSync('/dev/loop-control');
const clock = createClock();
let directory: string;
let opened: OpenRecorder[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-record-'));
  opened = [];
});
afterEach(async () => {
  for (const recorder of opened) await recorder.close();
  rmSync(directory, { recursive: true, force: true });
});

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

function openRecorder(
  rest: { readonly recordDirectory?: string; readonly dry?: boolean; readonly adopted?: State } = {},
  open = createRecorder,
) {
  const entries: RecordEntry[] = [];
  const findings: Findings = createFindings({ clock, log: silent, note: (note) => recorder.note(note) });
  const recorder: OpenRecorder = open({
    clock,
    stateFile: join(directory, 'state.json'),
    recordDirectory: join(directory, 'record'),
    dry: false,
    bootId: 'boot',
    adopted: initialState('boot'),
    findings,
    config: () => aConfig([aThreshold('memory.available', 100 * MI)]),
    onEntry: (entry) => entries.push(entry),
    ...rest,
  });
  opened.push(recorder);
  return { recorder, findings, entries };
}

function aDecision(id: string): Decision {
  return { id, atMs: 1_000, kind: 'set-condition', condition: 'MemoryPressure', status: true };
}

function aStep(id: string, state: Partial<State> = {}) {
  const pods = { known: true, value: [aPod({ name: 'web', workingSetBytes: 300 * MI })] } as const;
  const verdict: Verdict = {
    state: { ...initialState('boot'), ...state },
    decisions: [aDecision(id)],
    reasons: [{ code: 'waiting-for-victim', eviction: 'a-1', remainingMs: 5 }],
    next: { afterMs: 2, pods: null },
    intentWaitMs: 5,
  };
  return {
    observation: anObservation(1_000, { 'memory.available': { available: 92 * MI, capacity: GI } }, { pods }),
    verdict,
  };
}

/** Of ours, in this test's directory. */
function openFiles(): readonly string[] {
  const paths = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ''; // The one that listed them.
    }
  });
  return paths.filter((path) => path.startsWith(directory));
}

async function until(isSo: () => boolean): Promise<void> {
  const giveUpMs = clock.monoMs() + 20_000;
  while (!isSo()) {
    if (clock.monoMs() > giveUpMs) throw new Error('it never became so');
    await new Promise<void>((resolve) => {
      clock.after(10, resolve);
    });
  }
}

describe('a decision that the disk had not taken when the agent was killed', () => {
  // The first agent's record lies where nothing can be written; it is not closed before the next one has read.
  const decideAndDie = async (): Promise<void> => {
    const { recorder } = openRecorder({ recordDirectory: '/dev/null/record' });
    await recorder.intent(aStep('boot-1', { nextDecision: 2 }), 5);
  };
  const recorded = async (adopted: State): Promise<readonly string[]> => {
    const { recorder } = openRecorder({ adopted });
    await recorder.close();
    return readRecord(join(directory, 'record')).entries.flatMap((entry) =>
      entry.kind === 'decision' ? [entry.decision.id] : [],
    );
  };

  it('is recorded by the next one, once', async () => {
    await decideAndDie();
    const adopted = { ...initialState('boot'), nextDecision: 2 };
    expect(await recorded(adopted)).toEqual(['boot-1']);
    expect(await recorded(adopted)).toEqual(['boot-1']);
  });

  it('is not recorded when the state does not know of it: it was never begun', async () => {
    await decideAndDie();
    expect(await recorded(initialState('boot'))).toEqual([]);
  });
});

describe('an intent', () => {
  it('is in the state file and durable in the record before it resolves, with what it was made from after', async () => {
    const { recorder } = openRecorder();
    const how = await recorder.intent(aStep('b-1', { nextDecision: 2 }), 2_000);
    expect(how).toBe('durable');
    expect(JSON.parse(readFileSync(join(directory, 'state.json'), 'utf8'))).toMatchObject({ nextDecision: 2 });
    const onDisk = readRecord(join(directory, 'record')).entries;
    expect(onDisk[0]).toMatchObject({
      schema: 1,
      kind: 'decision',
      bootId: 'boot',
      dry: false,
      decision: { id: 'b-1' },
    });

    recorder.outcome({ of: 'b-1', atMs: 1_200, kind: 'dropped', because: 'gone' });
    await recorder.close();
    const [joined] = joinDecisions(readRecord(join(directory, 'record')).entries);
    expect(joined).toMatchObject({
      decision: { id: 'b-1' },
      reasons: [{ code: 'waiting-for-victim' }],
      isDeferred: false,
      observation: { atMs: 1_000, scenario: { kind: 'EvictionScenario', pods: [{ metadata: { name: 'web' } }] } },
      outcomes: [{ kind: 'dropped', because: 'gone' }],
    });
    expect(recorder.recent()).toEqual([]);
    expect(statSync(join(directory, 'record')).mode & 0o777).toBe(0o750);
    expect(statSync(join(directory, 'record', 'record.jsonl')).mode & 0o777).toBe(0o640);
  });

  it('in a dry run goes into a record of its own and says so', async () => {
    const { recorder } = openRecorder({ dry: true });
    await recorder.intent(aStep('b-1'), 2_000);
    expect(readdirSync(join(directory, 'record'))).toEqual(['record-dry.jsonl']);
    expect(readRecord(join(directory, 'record')).entries).toEqual([]);
    expect(readRecord(join(directory, 'record'), { dry: true }).entries[0]).toMatchObject({ dry: true });
  });

  it('is deferred, kept and written later when the disk takes nothing', async () => {
    // A file where the directory should be: every attempt fails until it is gone.
    writeFileSync(join(directory, 'record'), '');
    const { recorder, findings } = openRecorder();
    // A refusal is known at once: nobody waits for the deadline.
    const began = clock.monoMs();
    expect(await recorder.intent(aStep('b-1'), 30_000)).toBe('deferred');
    expect(clock.monoMs() - began).toBeLessThan(10_000);
    expect(findings.all().map(({ id }) => id)).toEqual(['record']);
    expect(JSON.parse(readFileSync(join(directory, 'state.json'), 'utf8')).schema).toBe(1);

    rmSync(join(directory, 'record'));
    await until(() => findings.all().length === 0);
    const [joined] = joinDecisions(readRecord(join(directory, 'record')).entries);
    expect(joined).toMatchObject({ decision: { id: 'b-1' }, isDeferred: true });
  });

  it('that the disk refused is written also after the recorder is closed, and no file stays open', async () => {
    writeFileSync(join(directory, 'record'), '');
    const { recorder } = openRecorder();
    expect(await recorder.intent(aStep('b-1'), 30_000)).toBe('deferred');
    await recorder.close();
    rmSync(join(directory, 'record'));
    await until(() => readRecord(join(directory, 'record')).entries.length > 0);
    await until(() => openFiles().length === 0);
  });

  it('is never lost beyond 10,000 entries without a count of what was', async () => {
    writeFileSync(join(directory, 'record'), '');
    const { recorder, findings } = openRecorder();
    for (let i = 1; i <= 10_500; i++) recorder.outcome({ of: `b-${i}`, atMs: i, kind: 'dropped', because: 'gone' });
    await until(() => findings.all().length === 1);
    rmSync(join(directory, 'record'));
    const isLast = (entry: RecordEntry): boolean => entry.kind === 'outcome' && entry.outcome.of === 'b-10500';
    // The finding is cleared by the first batch that the disk takes; the last one may still be on its way.
    await until(() => findings.all().length === 0 && readRecord(join(directory, 'record')).entries.some(isLast));
    const { entries } = readRecord(join(directory, 'record'));
    const lost = entries.flatMap((entry) => (entry.kind === 'lost' ? [entry.entries] : []));
    const kept = entries.filter(({ kind }) => kind !== 'lost');
    expect(lost.reduce((a, b) => a + b, 0)).toBeGreaterThanOrEqual(500);
    expect(kept.length).toBeLessThanOrEqual(10_000);
    expect(kept.findLast(({ kind }) => kind === 'outcome')).toMatchObject({ outcome: { of: 'b-10500' } });
  });
});

describe('parts that are made anew while the disk takes nothing', () => {
  const recordedIds = (): readonly string[] =>
    joinDecisions(readRecord(join(directory, 'record')).entries).map(({ decision }) => decision.id);

  it('go on with what the earlier ones hold, and write it once and in order', async () => {
    writeFileSync(join(directory, 'record'), '');
    const open = createRecorders();
    const first = openRecorder({}, open);
    expect(await first.recorder.intent(aStep('boot-1', { nextDecision: 2 }), 5)).toBe('deferred');
    await first.recorder.close();
    const second = openRecorder({ adopted: { ...initialState('boot'), nextDecision: 2 } }, open);
    expect(await second.recorder.intent(aStep('boot-2', { nextDecision: 3 }), 5)).toBe('deferred');
    await until(() => second.findings.all().length === 1);
    // What the earlier ones began may still end.
    first.recorder.outcome({ of: 'boot-1', atMs: 1, kind: 'dropped', because: 'gone' });

    rmSync(join(directory, 'record'));
    await until(() => second.findings.all().length === 0 && recordedIds().includes('boot-2'));
    expect(await second.recorder.intent(aStep('boot-3', { nextDecision: 4 }), 2_000)).toBe('durable');
    // Two writers would each be at it once a second.
    await new Promise<void>((resolve) => {
      clock.after(1_500, resolve);
    });
    expect(recordedIds()).toEqual(['boot-1', 'boot-2', 'boot-3']);
    expect(openFiles()).toHaveLength(1);
    await second.recorder.close();
    expect(openFiles()).toEqual([]);
  });

  it('and have another record begin that one, beside the earlier', async () => {
    writeFileSync(join(directory, 'record'), '');
    const open = createRecorders();
    const first = openRecorder({}, open);
    expect(await first.recorder.intent(aStep('boot-1'), 5)).toBe('deferred');
    await first.recorder.close();
    const second = openRecorder({ recordDirectory: join(directory, 'other') }, open);
    expect(await second.recorder.intent(aStep('boot-2'), 2_000)).toBe('durable');
    rmSync(join(directory, 'record'));
    await until(() => recordedIds().length > 0);
    expect(recordedIds()).toEqual(['boot-1']);
  });
});

/** A disk of 1 MiB. */
async function onSmallDisk(body: (full: string) => Promise<void>): Promise<void> {
  const full = join(directory, 'full');
  mkdirSync(full);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', full]);
  try {
    await body(full);
  } finally {
    for (const recorder of opened.splice(0)) await recorder.close();
    execFileSync('umount', ['-l', full]);
  }
}

function fill(full: string): void {
  try {
    writeFileSync(join(full, 'ballast'), Buffer.alloc(2 * MI));
  } catch {
    // ENOSPC is what is wanted.
  }
}

describe('a disk that is full [needs root for a tmpfs of 1 MiB]', () => {
  it.skipIf(!isRoot)('delays no intent, loses nothing, and tears no line', async () => {
    await onSmallDisk(async (full) => {
      const { recorder, findings } = openRecorder({ recordDirectory: full });
      expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
      fill(full);
      const began = clock.monoMs();
      for (let i = 2; i <= 200; i++) {
        // A line's length, so that one of them meets the end of the disk in its middle.
        const how = await recorder.intent(aStep(`b-${i}`), 50);
        if (i > 100) expect(how).toBe('deferred');
      }
      expect(clock.monoMs() - began).toBeLessThan(199 * 60);
      expect(findings.all().map(({ id }) => id)).toEqual(['record']);

      rmSync(join(full, 'ballast'));
      await until(() => findings.all().length === 0);
      await recorder.close();
      const { entries, tornLines } = readRecord(full);
      expect(tornLines).toBe(0);
      const ids = joinDecisions(entries).map(({ decision }) => decision.id);
      expect(ids).toEqual(Array.from({ length: 200 }, (_, i) => `b-${i + 1}`));
    });
  });
});

describe('a full disk with another writer [needs root for a tmpfs of 1 MiB]', () => {
  it.skipIf(!isRoot)('never cuts off what the other one appended', async () => {
    await onSmallDisk(async (full) => {
      const [one, other] = [openRecorder({ recordDirectory: full }), openRecorder({ recordDirectory: full })];
      expect(await one.recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
      expect(await other.recorder.intent(aStep('b-2'), 2_000)).toBe('durable');
      await other.recorder.close();
      fill(full);
      // The last page of the file takes some of them yet.
      let last = 2;
      const durable = ['b-1', 'b-2'];
      while (one.findings.all().length === 0) {
        if ((await one.recorder.intent(aStep(`b-${++last}`), 2_000)) === 'durable') durable.push(`b-${last}`);
      }
      const ids = () => joinDecisions(readRecord(full).entries).map(({ decision }) => decision.id);
      expect(ids()).toEqual(expect.arrayContaining(durable));

      rmSync(join(full, 'ballast'));
      await until(() => one.findings.all().length === 0 && ids().includes(`b-${last}`));
      expect(new Set(ids())).toEqual(new Set(Array.from({ length: last }, (_, i) => `b-${i + 1}`)));
    });
  });
});

describe('a disk that hangs [needs root and a loop mount that can be frozen]', () => {
  it.skipIf(!isRoot || !hasLoop)(
    'delays no intent beyond its deadline, and gets everything when it comes back',
    async () => {
      const [image, mount] = [join(directory, 'image'), join(directory, 'mount')];
      writeFileSync(image, '');
      truncateSync(image, 16 * MI);
      execFileSync('mkfs.ext4', ['-q', image]);
      mkdirSync(mount);
      execFileSync('mount', ['-o', 'loop', image, mount]);
      try {
        const { recorder } = openRecorder({ recordDirectory: mount });
        expect(await recorder.intent(aStep('b-1'), 10_000)).toBe('durable');
        execFileSync('fsfreeze', ['-f', mount]);
        try {
          const began = clock.monoMs();
          // From here on write(2) itself blocks: this thread must not be the one that calls it.
          for (const id of ['b-2', 'b-3', 'b-4']) expect(await recorder.intent(aStep(id), 50)).toBe('deferred');
          expect(clock.monoMs() - began).toBeLessThan(5_000);
        } finally {
          execFileSync('fsfreeze', ['-u', mount]);
        }
        expect(await recorder.intent(aStep('b-5'), 10_000)).toBe('durable');
        await recorder.close();
        const joined = joinDecisions(readRecord(mount).entries);
        expect(joined.map(({ decision, isDeferred }) => [decision.id, isDeferred])).toEqual([
          ['b-1', false],
          ['b-2', true],
          ['b-3', true],
          ['b-4', true],
          ['b-5', false],
        ]);
      } finally {
        for (const recorder of opened.splice(0)) await recorder.close();
        execFileSync('umount', ['-l', mount]);
      }
    },
  );
});

describe('the record file', () => {
  it('goes on behind the torn line of a killed agent, which the reader leaves out and counts', async () => {
    const first = openRecorder();
    await first.recorder.intent(aStep('b-1'), 2_000);
    await first.recorder.close();
    const path = join(directory, 'record', 'record.jsonl');
    appendFileSync(path, '{"schema":1,"atWallMs":17000000');

    const second = openRecorder();
    await second.recorder.intent(aStep('b-2'), 2_000);
    await second.recorder.close();
    const { entries, tornLines } = readRecord(join(directory, 'record'));
    expect(tornLines).toBe(1);
    expect(joinDecisions(entries).map(({ decision }) => decision.id)).toEqual(['b-1', 'b-2']);
    expect(second.findings.all()).toEqual([]);
  });

  it('that is damaged is kept aside, is a finding, and a new one begins', async () => {
    mkdirSync(join(directory, 'record'));
    const path = join(directory, 'record', 'record.jsonl');
    const garbage = Buffer.concat([
      Buffer.from('{"schema":1,"atWallMs":1}\n'),
      Buffer.alloc(4096, 0),
      Buffer.from('\n'),
    ]);
    writeFileSync(path, garbage);
    const { recorder, findings } = openRecorder();
    expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
    expect(findings.all().map(({ id }) => id)).toEqual(['record-corrupt']);
    expect(findings.all()[0]?.text).toContain('at line 2');
    const [aside = ''] = readdirSync(join(directory, 'record')).filter((name) => name.includes('corrupt'));
    expect(aside).toMatch(/^record\.jsonl\.corrupt-\d{8}T\d{6}Z$/);
    expect(readFileSync(join(directory, 'record', aside))).toEqual(garbage);
    const { entries } = readRecord(join(directory, 'record'));
    expect(entries.map(({ kind }) => kind)).toContain('decision');
  });

  it('is rotated at 16 MiB, and four old ones are kept and read in order', async () => {
    mkdirSync(join(directory, 'record'));
    const path = join(directory, 'record', 'record.jsonl');
    const line = (of: string) =>
      `${JSON.stringify({ schema: 1, atWallMs: 1, bootId: 'b', dry: false, kind: 'outcome', outcome: { of } })}\n`;
    for (const n of [4, 3, 2, 1]) writeFileSync(`${path}.${n}`, line(`old-${n}`));
    writeFileSync(path, `${line('full')}{"schema":1,${' '.repeat(16 * MI)}\n`);
    const { recorder } = openRecorder();
    expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
    await recorder.close();
    expect(existsSync(`${path}.5`)).toBe(false);
    const { entries } = readRecord(join(directory, 'record'));
    const outcomes = entries.flatMap((entry) => (entry.kind === 'outcome' ? [entry.outcome.of] : []));
    expect(outcomes).toEqual(['old-3', 'old-2', 'old-1', 'full']);
    expect(statSync(path).size).toBeLessThan(MI);
  });

  it('keeps two decisions apart that have one id, because the state was lost between them', async () => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    recorder.outcome({ of: 'b-1', atMs: 1, kind: 'dropped', because: 'gone' });
    await recorder.intent(aStep('b-1'), 2_000);
    recorder.outcome({ of: 'b-1', atMs: 2, kind: 'dropped', because: 'dry-run' });
    await recorder.close();
    const joined = joinDecisions(readRecord(join(directory, 'record')).entries);
    expect(joined.map(({ outcomes }) => outcomes)).toMatchObject([[{ because: 'gone' }], [{ because: 'dry-run' }]]);
  });

  it('that does not exist is an empty one', () => {
    expect(readRecord(join(directory, 'none'))).toEqual({ entries: [], tornLines: 0, unreadable: [] });
  });
});

describe('keeping the state', () => {
  const read = () => JSON.parse(readFileSync(join(directory, 'state.json'), 'utf8'));

  it('writes a timer, an act or a shutdown at once and everything else within a second', async () => {
    const { recorder } = openRecorder();
    const state = initialState('boot');
    recorder.keep(state);
    expect(read().lastLookMs).toBeNull();

    recorder.keep({ ...state, lastLookMs: 5 });
    expect(read().lastLookMs).toBeNull();
    recorder.keep({ ...state, lastLookMs: 7, firstMetMs: { 'memory.available/evictionSoft': 6 } });
    expect(read()).toMatchObject({ lastLookMs: 7, firstMetMs: { 'memory.available/evictionSoft': 6 } });

    recorder.keep({ ...state, lastLookMs: 9, firstMetMs: { 'memory.available/evictionSoft': 6 } });
    expect(read().lastLookMs).toBe(7);
    await until(() => read().lastLookMs === 9);
  });

  it('writes the last one when it is closed', async () => {
    const { recorder } = openRecorder();
    recorder.keep(initialState('boot'));
    recorder.keep({ ...initialState('boot'), lastLookMs: 5 });
    await recorder.close();
    expect(read().lastLookMs).toBe(5);
  });

  it('goes on without it, and says so, when it cannot be written', () => {
    mkdirSync(join(directory, 'state.json'));
    const { recorder, findings } = openRecorder();
    recorder.keep(initialState('boot'));
    expect(findings.all().map(({ id }) => id)).toEqual(['state-file']);
    rmSync(join(directory, 'state.json'), { recursive: true });
    recorder.keep({ ...initialState('boot'), nextDecision: 9, ownerKills: [{ ownerKey: 'a', atMs: 1 }] });
    expect(findings.all()).toEqual([]);
  });
});
