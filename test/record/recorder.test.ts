import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { initialState, type State } from '../../src/core/state/state.ts';
import { createClock } from '../../src/host/clock.ts';
import { joinDecisions, type RecordEntry } from '../../src/record/entry.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { createRecorders, type OpenRecorder } from '../../src/record/writing/recorder.ts';
import { aRecorder, aStep, until } from './a-recorder.ts';

const clock = createClock();
const { at, openRecorder, openFiles } = aRecorder();

const quantity = { nanos: '1', format: 'binary', text: null } as const;
const threshold = { isHard: true, limit: quantity, target: quantity, available: 1, sinceMs: 1 } as const;
const eviction = {
  decision: 'boot-1',
  decidedMs: 1_000,
  victim: { uid: 'u', namespace: 'shop', name: 'web', qos: 'Burstable', priority: 0 },
  graceEndsMs: 1_000,
  deadlineMs: 11_000,
  settledMs: null,
  cause: {
    kind: 'threshold',
    threshold: { ...threshold, id: 'memory.available/evictionHard', signal: 'memory.available' },
  },
} as const;
const underWay = { nextDecision: 2, act: { kind: 'evicting', evictions: [eviction] } } as const;

describe('what the disk had not accepted when the agent was killed', () => {
  // The first agent's record lies where nothing can be written; it is not closed before the next one has read.
  const decideAndDie = async (): Promise<OpenRecorder> => {
    const { recorder } = openRecorder({ recordDirectory: '/dev/null/record' });
    await recorder.intent(aStep('boot-1', { nextDecision: 2 }), 5);
    return recorder;
  };
  const recordedBy = async (adopted: State): Promise<readonly RecordEntry[]> => {
    const { recorder } = openRecorder({ adopted });
    await recorder.close();
    return readRecord(at('record')).entries;
  };
  const adopted = { ...initialState('boot'), nextDecision: 2, lastLookMs: 1_000 };
  const kindsOf = (entries: readonly RecordEntry[]) => entries.map(({ kind }) => kind);

  it('is recorded by the next run, once, if it is a decision', async () => {
    await decideAndDie();
    expect(await recordedBy(adopted)).toMatchObject([{ kind: 'decision', decision: { id: 'boot-1' } }]);
    expect(kindsOf(await recordedBy(adopted))).toEqual(['decision']);
  });

  it('is recorded also if it is a later outcome of a decision whose first one the record has', async () => {
    const first = await decideAndDie();
    first.outcome({ of: 'boot-1', atMs: 1_100, kind: 'unknown', detail: 'no answer' });
    first.outcome({ of: 'boot-1', atMs: 1_200, kind: 'dropped', because: 'gone' });
    const lines = readFileSync(at('state.json.intents'), 'utf8').split(/(?<=\n)/);
    mkdirSync(at('record'));
    writeFileSync(at('record', 'record.jsonl'), lines.slice(0, 2).join(''), { mode: 0o640 });
    const [joined] = joinDecisions(await recordedBy(adopted));
    expect(joined?.outcomes.map(({ kind }) => kind)).toEqual(['unknown', 'dropped']);
  });

  it('is not recorded if the state does not contain the decision: it was never begun', async () => {
    await decideAndDie();
    expect(await recordedBy(initialState('boot'))).toEqual([]);
  });

  it('is recorded after a loss of the state only if the stop had begun', async () => {
    const recorder = await decideAndDie();
    const fresh = { ...initialState('boot'), nextDecision: 2 };
    expect(await recordedBy(fresh)).toEqual([]);
    await decideAndDie();
    recorder.began(theEvidence);
    expect(kindsOf(await recordedBy(fresh))).toEqual(['decision', 'note']);
  });

  it('includes the beginning and end of a stop, unchanged, even in the run after the next', async () => {
    const recorder = await decideAndDie();
    recorder.began(theEvidence);
    recorder.outcome(theEnd);
    // This one cannot write either.
    openRecorder({ recordDirectory: '/dev/null/record', adopted });
    const recorded = await recordedBy(adopted);
    expect(kindsOf(recorded)).toEqual(['decision', 'note', 'outcome']);
    expect(joinDecisions(recorded)).toMatchObject([{ evidence: { stopBeganAtMs: 1_050 }, outcomes: [theEnd] }]);
    expect(kindsOf(await recordedBy(adopted))).toEqual(kindsOf(recorded));
  });
});

const theEvidence = {
  kind: 'evidence',
  of: 'boot-1',
  stopBeganAtMs: 1_050,
  largestProcesses: { known: true, value: [] },
  podStatus: { phase: 'Failed', reason: 'Evicted', message: '', conditions: [] },
} as const;
const theEnd = {
  of: 'boot-1',
  atMs: 1_200,
  kind: 'ended',
  via: 'sigkill',
  releasedBytes: { known: true, value: 5 },
} as const;

describe('an eviction that was in progress when the agent was killed', () => {
  const adopted = { ...initialState('boot'), ...underWay };

  it('is known to the next run as far as it had come', async () => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('boot-1', underWay), 2_000);
    expect(openRecorder({ adopted }).recorder.left('boot-1')).toMatchObject({
      decision: { id: 'boot-1' },
      begunMs: null,
      outcome: null,
    });
    recorder.began(theEvidence);
    expect(openRecorder({ adopted }).recorder.left('boot-1')).toMatchObject({ begunMs: 1_050, outcome: null });
    recorder.outcome(theEnd);
    // Also when its end is in the record, and the state was not written since.
    await recorder.close();
    expect(openRecorder({ adopted }).recorder.left('boot-1')).toMatchObject({ begunMs: 1_050, outcome: theEnd });
  });

  describe('beside a long record', () => {
    const MIB = 2 ** 20;
    /** The lines of the stop that began, and so many notes of this boot, a little longer than 1 KiB each. */
    const begun = async (): Promise<string> => {
      const { recorder } = openRecorder({ recordDirectory: '/dev/null/record' });
      await recorder.intent(aStep('boot-1', underWay), 5);
      recorder.began(theEvidence);
      mkdirSync(at('record'));
      return readFileSync(at('state.json.intents'), 'utf8');
    };
    const notes = (atWallMs: number, count: number): string => {
      const note = { kind: 'start', version: 'x'.repeat(1024) };
      return `${JSON.stringify({ schema: 1, atWallMs, bootId: 'boot', dry: false, kind: 'note', note })}\n`.repeat(
        count,
      );
    };
    const write = (name: string, text: string) => writeFileSync(at('record', name), text, { mode: 0o640 });
    const bytesRead = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/thread-self/io', 'latin1'))?.[1]);

    it('is resumed without reading what is older', async () => {
      write('record.jsonl', `${notes(1_000, 4_000)}${await begun()}`);
      write('record.jsonl.1', notes(1_000, 8_000));
      const before = bytesRead();
      const { recorder } = openRecorder({ adopted });
      expect(bytesRead() - before).toBeLessThan(3 * MIB);
      expect(recorder.left('boot-1')).toMatchObject({ begunMs: 1_050 });
    });

    it.each(['the same file', 'a rotated one'])(
      'is not recorded twice if its lines are far back in %s',
      async (where) => {
        const later = notes(clock.wallMs() + 1_000, 2_000);
        const [lines, isRotated] = [await begun(), where !== 'the same file'];
        write('record.jsonl', isRotated ? later : `${lines}${later}`);
        if (isRotated) write('record.jsonl.1', `${notes(1_000, 2_000)}${lines}`);
        await openRecorder({ adopted }).recorder.close();
        const { entries } = readRecord(at('record'));
        expect(entries.filter(({ kind }) => kind === 'decision')).toHaveLength(1);
      },
    );

    it('is recorded if the record has its decision, and not the beginning of its stop', async () => {
      const [decision = ''] = (await begun()).split(/(?<=\n)/);
      write('record.jsonl', `${notes(1_000, 2_000)}${decision}${notes(clock.wallMs() + 1_000, 2_000)}`);
      await openRecorder({ adopted }).recorder.close();
      const { entries } = readRecord(at('record'));
      const kinds = entries.filter(
        ({ kind, ...entry }) => kind === 'decision' || JSON.stringify(entry).includes('evidence'),
      );
      expect(kinds.map(({ kind }) => kind)).toEqual(['decision', 'note']);
    });
  });

  it('is forgotten next to the state once the state and the record no longer need it', async () => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('boot-1', underWay), 2_000);
    recorder.outcome(theEnd);
    expect(statSync(at('state.json.intents')).size).toBeGreaterThan(0);
    recorder.keep({ ...initialState('boot'), nextDecision: 2 });
    await until(() => statSync(at('state.json.intents')).size === 0);
    expect(recorder.left('boot-1').outcome).toBeNull();
  });
});

describe('an intent', () => {
  it('is in the state file and durable in the record before it resolves, followed by its basis', async () => {
    const { recorder } = openRecorder();
    const how = await recorder.intent(aStep('b-1', { nextDecision: 2 }), 2_000);
    expect(how).toBe('durable');
    expect(JSON.parse(readFileSync(at('state.json'), 'utf8'))).toMatchObject({ nextDecision: 2 });
    const onDisk = readRecord(at('record')).entries;
    expect(onDisk[0]).toMatchObject({
      schema: 1,
      kind: 'decision',
      bootId: 'boot',
      dry: false,
      decision: { id: 'b-1' },
    });

    recorder.outcome({ of: 'b-1', atMs: 1_200, kind: 'dropped', because: 'gone' });
    await recorder.close();
    const [joined] = joinDecisions(readRecord(at('record')).entries);
    expect(joined).toMatchObject({
      decision: { id: 'b-1' },
      reasons: [{ code: 'waiting-for-victim' }],
      isDeferred: false,
      observation: {
        atMs: 1_000,
        scenario: { kind: 'EvictionScenario', pods: [{ metadata: { name: 'web' } }] },
        others: [{ name: 'ending' }],
      },
      outcomes: [{ kind: 'dropped', because: 'gone' }],
    });
    expect(recorder.recent()).toEqual([]);
    expect(statSync(at('record')).mode & 0o777).toBe(0o750);
    expect(statSync(at('record', 'record.jsonl')).mode & 0o777).toBe(0o640);
  });

  it('has as its basis what was decided on: pods that a shutdown is stopping could not be chosen', async () => {
    const { recorder } = openRecorder();
    const stop = { decision: 'a-1', decidedMs: 0, uid: 'uid-web', graceEndsMs: 60_000, waitEndsMs: 70_000 };
    await recorder.intent(aStep('b-1', { stops: [stop] }), 2_000);
    await recorder.close();
    expect(joinDecisions(readRecord(at('record')).entries)[0]?.observation).toMatchObject({
      scenario: { pods: [] },
      others: [{ name: 'web' }, { name: 'ending' }],
    });
  });

  it('in a dry run goes into a record of its own and says so', async () => {
    const { recorder } = openRecorder({ dry: true });
    await recorder.intent(aStep('b-1'), 2_000);
    expect(readdirSync(at('record'))).toEqual(['record-dry.jsonl']);
    expect(readRecord(at('record')).entries).toEqual([]);
    expect(readRecord(at('record'), { dry: true }).entries[0]).toMatchObject({ dry: true });
  });

  it('is deferred, kept and written later if the disk accepts nothing', async () => {
    // A file where the directory should be: every attempt fails until it is gone.
    writeFileSync(at('record'), '');
    const { recorder, findings } = openRecorder();
    // A refusal is known at once: nobody waits for the deadline.
    const began = clock.monoMs();
    expect(await recorder.intent(aStep('b-1'), 30_000)).toBe('deferred');
    expect(clock.monoMs() - began).toBeLessThan(10_000);
    expect(findings.all().map(({ id }) => id)).toEqual(['record']);
    expect(JSON.parse(readFileSync(at('state.json'), 'utf8')).schema).toBe(1);

    rmSync(at('record'));
    await until(() => findings.all().length === 0);
    const [joined] = joinDecisions(readRecord(at('record')).entries);
    expect(joined).toMatchObject({ decision: { id: 'b-1' }, isDeferred: true });
    // Beside the state it is kept only while the disk has not taken it.
    await until(() => statSync(at('state.json.intents')).size === 0);
  });

  it('that the disk refused is written even after the recorder is closed, and no file stays open', async () => {
    writeFileSync(at('record'), '');
    const { recorder } = openRecorder();
    expect(await recorder.intent(aStep('b-1'), 30_000)).toBe('deferred');
    await recorder.close();
    rmSync(at('record'));
    await until(() => readRecord(at('record')).entries.length > 0);
    await until(() => openFiles().length === 0);
  });

  it('is never lost beyond 10,000 entries without being counted', async () => {
    writeFileSync(at('record'), '');
    const { recorder, findings } = openRecorder();
    for (let i = 1; i <= 10_500; i++) recorder.outcome({ of: `b-${i}`, atMs: i, kind: 'dropped', because: 'gone' });
    await until(() => findings.all().length === 1);
    rmSync(at('record'));
    const isLast = (entry: RecordEntry): boolean => entry.kind === 'outcome' && entry.outcome.of === 'b-10500';
    // The finding is cleared by the first batch that the disk takes; the last one may still be on its way.
    await until(() => findings.all().length === 0 && readRecord(at('record')).entries.some(isLast));
    const { entries } = readRecord(at('record'));
    const lost = entries.flatMap((entry) => (entry.kind === 'lost' ? [entry.entries] : []));
    const kept = entries.filter(({ kind }) => kind !== 'lost');
    expect(lost.reduce((a, b) => a + b, 0)).toBeGreaterThanOrEqual(500);
    expect(kept.length).toBeLessThanOrEqual(10_000);
    expect(kept.findLast(({ kind }) => kind === 'outcome')).toMatchObject({ outcome: { of: 'b-10500' } });
  });
});

describe('an intent that is dropped before the disk has it', () => {
  it('is not said to be durable', async () => {
    const { recorder } = openRecorder();
    const how = recorder.intent(aStep('b-1'), 30_000);
    for (let i = 1; i <= 10_000; i++) recorder.note({ kind: 'stopped', atMs: i, machine: 'stays' });
    expect(await how).toBe('deferred');
    await recorder.close();
    const { entries } = readRecord(at('record'));
    expect(entries.find(({ kind }) => kind === 'lost')).toMatchObject({ kind: 'lost' });
    expect(joinDecisions(entries)).toEqual([]);
  });
});

describe('parts that are rebuilt while the disk accepts nothing', () => {
  const recordedIds = (): readonly string[] =>
    joinDecisions(readRecord(at('record')).entries).map(({ decision }) => decision.id);

  it('continue with what the earlier ones hold, and write it once and in order', async () => {
    writeFileSync(at('record'), '');
    const open = createRecorders();
    const first = openRecorder({}, open);
    expect(await first.recorder.intent(aStep('boot-1', { nextDecision: 2 }), 5)).toBe('deferred');
    await first.recorder.close();
    const second = openRecorder({ adopted: { ...initialState('boot'), nextDecision: 2, lastLookMs: 1_000 } }, open);
    expect(await second.recorder.intent(aStep('boot-2', { nextDecision: 3 }), 5)).toBe('deferred');
    await until(() => second.findings.all().length === 1);
    // What the earlier ones began may still end.
    first.recorder.outcome({ of: 'boot-1', atMs: 1, kind: 'dropped', because: 'gone' });

    rmSync(at('record'));
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

  it('can open another record beside the earlier one', async () => {
    writeFileSync(at('record'), '');
    const open = createRecorders();
    const first = openRecorder({}, open);
    expect(await first.recorder.intent(aStep('boot-1'), 5)).toBe('deferred');
    await first.recorder.close();
    const second = openRecorder({ recordDirectory: at('other') }, open);
    expect(await second.recorder.intent(aStep('boot-2'), 2_000)).toBe('durable');
    rmSync(at('record'));
    await until(() => recordedIds().length > 0);
    expect(recordedIds()).toEqual(['boot-1']);
  });
});

describe('a record in another directory', () => {
  it('has the basis of an eviction that is not over yet, and the last decisions stay known', async () => {
    const open = createRecorders();
    const step = aStep('boot-1', underWay);
    const decisions = [{ id: 'boot-1', atMs: 1_000, kind: 'announce-shutdown', totalMs: 1, byKubelet: false }] as const;
    const first = openRecorder({}, open);
    await first.recorder.intent({ ...step, verdict: { ...step.verdict, decisions } }, 2_000);
    first.recorder.outcome(theEnd);
    await first.recorder.close();
    const second = openRecorder(
      { recordDirectory: at('other'), adopted: { ...initialState('boot'), ...underWay } },
      open,
    );
    expect(second.recorder.recent()).toMatchObject([{ decision: { id: 'boot-1' }, outcome: theEnd }]);
    await second.recorder.close();
    const [joined] = joinDecisions(readRecord(at('other')).entries);
    expect(joined?.outcomes).toEqual([theEnd]);
    expect(joined?.observation?.scenario?.pods).toMatchObject([{ metadata: { name: 'web' } }]);
  });
});

describe('keeping the state', () => {
  const read = () => JSON.parse(readFileSync(at('state.json'), 'utf8'));

  it('writes a timer, an act or a shutdown at once and everything else within a second', async () => {
    const { recorder } = openRecorder();
    const state = initialState('boot');
    recorder.keep(state);
    expect(read().lastLookMs).toBeNull();

    recorder.keep({ ...state, lastLookMs: 5 });
    expect(read().lastLookMs).toBeNull();
    recorder.keep({ ...state, lastLookMs: 7, firstMetMs: { 'memory.available/evictionSoft': 6 } });
    expect(read()).toMatchObject({ lastLookMs: 7, firstMetMs: { 'memory.available/evictionSoft': 6 } });

    // A soft timer stands still while its signal is unknown: that moves it at every look.
    recorder.keep({ ...state, lastLookMs: 9, firstMetMs: { 'memory.available/evictionSoft': 8 } });
    expect(read().lastLookMs).toBe(7);
    await until(() => read().lastLookMs === 9);
  });

  it('is slow while nothing is in progress, until a signal cannot be read', async () => {
    const { recorder } = openRecorder();
    const state = initialState('boot');
    recorder.keep(state);
    recorder.keep({ ...state, lastLookMs: 5 });
    await new Promise<void>((resolve) => {
      clock.after(1_500, resolve);
    });
    expect(read().lastLookMs).toBeNull();
    const failedLooks = { 'memory.available': { count: 1, sinceMs: 7 } };
    recorder.keep({ ...state, lastLookMs: 7, failedLooks });
    expect(read()).toMatchObject({ lastLookMs: 7, failedLooks });
  });

  it('writes the last state when it is closed', async () => {
    const { recorder } = openRecorder();
    recorder.keep(initialState('boot'));
    recorder.keep({ ...initialState('boot'), lastLookMs: 5 });
    await recorder.close();
    expect(read().lastLookMs).toBe(5);
  });

  it('continues without the file, and says so, if it cannot be written', () => {
    mkdirSync(at('state.json'));
    const { recorder, findings } = openRecorder();
    recorder.keep(initialState('boot'));
    expect(findings.all().map(({ id }) => id)).toEqual(['state-file']);
    rmSync(at('state.json'), { recursive: true });
    recorder.keep({ ...initialState('boot'), nextDecision: 9, ownerKills: [{ ownerKey: 'a', atMs: 1 }] });
    expect(findings.all()).toEqual([]);
  });
});
