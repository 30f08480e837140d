import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type History, historyText, whyChosen } from '../../src/cli/history-text.ts';
import { jsonText, painter } from '../../src/cli/print.ts';
import type { Decision } from '../../src/core/decision.ts';
import { rank } from '../../src/core/eviction/rank.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { createClock, readBootId } from '../../src/host/clock.ts';
import { type EntryBody, entryOf, joinDecisions, sayEntry } from '../../src/record/entry.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { aConfig, anObservation, aPod } from '../a.ts';
import { aBoot, aWholeShutdown } from '../record/a-shutdown.ts';
import { anEviction, ended } from '../serve/a-report.ts';

const BEGAN_WALL_MS = Date.UTC(2026, 0, 31, 12);
const head = { atWallMs: BEGAN_WALL_MS, bootId: 'boot', dry: false };
const plain = painter(false);

function observed(of: string): EntryBody {
  const pods = known([aPod({ name: 'web', namespace: 'shop' }), aPod({ name: 'db', namespace: 'shop' })]);
  const observation = anObservation(1_000, {}, { pods });
  const scenario = scenarioOf({ name: of, observation, config: aConfig([]), acted: null });
  return { kind: 'observation', of: [of], atMs: 1_000, signals: observation.signals, psi: observation.psi, scenario };
}

const evidence = {
  kind: 'evidence',
  of: 'b-1',
  stopBeganAtMs: 1_002,
  largestProcesses: known([{ pid: 77, name: 'leak\x1b[31m', rssBytes: 280 * 2 ** 20 }]),
  podStatus: { phase: 'Failed', reason: 'Evicted', message: '', conditions: [] },
} as const;

function entries(): readonly EntryBody[] {
  return [
    {
      kind: 'decision',
      decision: anEviction('b-1'),
      reasons: [{ code: 'passed-over', uid: 'uid-db', because: 'protected' }],
    },
    observed('b-1'),
    { kind: 'deferred', of: ['b-1'], waitedMs: 5 },
    { kind: 'note', note: evidence },
    { kind: 'outcome', outcome: ended('b-1') },
    { kind: 'note', note: { kind: 'kernel-oom-kill', atMs: 1_100, count: 2, pods: ['shop/web'] } },
    {
      kind: 'decision',
      decision: { id: 'b-2', atMs: 2_000, kind: 'set-condition', condition: 'MemoryPressure', status: true },
      reasons: [],
    },
  ];
}

const aHistory = (rest: Partial<History>): History => ({
  schema: 1,
  decisions: [],
  kernelOomKills: [],
  shutdowns: [],
  boots: [],
  ...rest,
});

describe('the history as text', () => {
  it('names what an eviction also stops', () => {
    const takesAlong = ['shop/till', 'metrics.service'];
    const { victim } = anEviction('b-1');
    const overLimit = {
      ...{ id: 'b-2', atMs: 0, kind: 'evict-over-limit' },
      victim,
      graceSeconds: 1,
      message: 'over. ',
    };
    for (const eviction of [anEviction('b-1'), overLimit]) {
      const written = [{ kind: 'decision', decision: { ...eviction, takesAlong }, reasons: [] }] as EntryBody[];
      const decisions = joinDecisions(written.map((body) => entryOf(head, body)));
      const text = historyText(aHistory({ decisions }), '/var/lib/nodewarden', plain);
      expect(text).toContain('also stops shop/till, metrics.service');
    }
  });

  it('says that only the min reclaim is not reached, if the threshold itself is over', () => {
    const evicted = anEviction('b-1');
    const threshold = {
      ...evicted.threshold,
      available: 154 * 2 ** 20,
      target: quantityOfBytes(160 * 2 ** 20, 'binary'),
    };
    const written = [{ kind: 'decision', decision: { ...evicted, threshold }, reasons: [] }] as EntryBody[];
    const decisions = joinDecisions(written.map((body) => entryOf(head, body)));
    const text = historyText(aHistory({ decisions }), '/var/lib/nodewarden', plain);
    expect(text).toContain('hard threshold, counts as met until its min reclaim is reached, for 100ms');
    expect(text).toContain('threshold 100 MiB, 160 MiB with its min reclaim');
  });

  it('says of a reclaim without an outcome that what it freed is not recorded', () => {
    const { threshold } = anEviction('b-1');
    const decision = { id: 'b-1', atMs: 0, kind: 'reclaim', threshold } as const;
    const textWith = (rest: readonly EntryBody[]): string => {
      const written: readonly EntryBody[] = [{ kind: 'decision', decision, reasons: [] }, ...rest];
      const decisions = joinDecisions(written.map((body) => entryOf(head, body)));
      return historyText(aHistory({ decisions }), '/var/lib/nodewarden', plain);
    };
    const freed = unknown('not-asked', 'memory.available', 'the agent ended before the reclaim was over');
    const outcome = { of: 'b-1', atMs: 1, kind: 'reclaimed', freed } as const;
    expect(textWith([])).toContain('MiB: what it freed is not recorded\n');
    expect(textWith([{ kind: 'outcome', outcome }])).toContain(
      'MiB: freed an unknown amount (the agent ended before the reclaim was over)\n',
    );
  });

  it('names a pod that could not be chosen because it is already being stopped', () => {
    const decision = anEviction('b-1');
    const reasons = [{ code: 'passed-over', uid: 'uid-end', because: 'terminating' }] as const;
    const others = [{ uid: 'uid-end', namespace: 'shop', name: 'ending' }];
    const written = [
      { kind: 'decision', decision, reasons },
      { ...observed('b-1'), others },
    ] as EntryBody[];
    const decisions = joinDecisions(written.map((body) => entryOf(head, body)));
    expect(historyText(aHistory({ decisions }), '/var/lib/nodewarden', plain)).toContain('shop/ending is passed over');
  });

  const textOf = (rest: Partial<Extract<Decision, { kind: 'evict' }>>): string => {
    const written = [{ kind: 'decision', decision: { ...anEviction('b-1'), ...rest }, reasons: [] }] as EntryBody[];
    return historyText(aHistory({ decisions: joinDecisions(written.map((body) => entryOf(head, body))) }), '', plain);
  };

  it('says of an end that no agent saw when a later run noticed it', () => {
    const outcome = { ...ended('b-1'), isNoticedLater: true };
    const bodies = [...entries().slice(0, 4), { kind: 'outcome', outcome }] as EntryBody[];
    const decisions = joinDecisions(bodies.map((body) => entryOf(head, body)));
    expect(historyText(aHistory({ decisions }), '', plain)).toContain(
      'ended by sigkill, which a later run of the agent noticed after 36ms, gave back 290 MiB',
    );
  });

  it('gives the victim no priority if that is unknown', () => {
    const victim = {
      ...anEviction('b-1').victim,
      unsaid: { why: 'undeclared', priority: true, requests: true },
    } as const;
    expect(textOf({ victim })).toContain('victim    shop/web (Burstable, priority unknown)\n');
  });

  it('shows the victim in the ranking, wherever it is in it, and the others by their names, though nothing was observed', () => {
    const pods = Array.from({ length: 9 }, (_, i) => aPod({ name: `pod-${i}`, priority: i, workingSetBytes: 5 }));
    const ranking = rank('memory.available', pods, 'nodefs-only').map(({ row }) => row);
    const rowsFor = (uid: string): readonly string[] =>
      textOf({ ranking, victim: { ...anEviction('b-1').victim, uid } }).match(
        /uid-pod-\d|default\/pod-\d|shop\/web {2}|and \d more/g,
      ) ?? [];
    const first = [0, 1, 2, 3, 4].map((i) => `default/pod-${i}`);
    expect(rowsFor('uid-pod-8')).toEqual([...first, 'shop/web  ', 'and 3 more']);
    expect(rowsFor('uid-pod-5')).toEqual([...first, 'shop/web  ', 'and 3 more']);
    expect(rowsFor('uid-pod-0')).toEqual(['shop/web  ', ...first.slice(1), 'and 4 more']);
  });

  it('says of a victim at the end of the ranking that all others are passed over', () => {
    const pods = [aPod({ name: 'db', workingSetBytes: 1 }), aPod({ name: 'web', workingSetBytes: 5 })];
    const ranking = rank('memory.available', pods, 'nodefs-only').map(({ row }) => row);
    expect(whyChosen(ranking, 'uid-db')).toBe('of 2 pods, the only one that is not passed over');
    expect(whyChosen(ranking.slice(1), 'uid-db')).toBe('the only pod');
  });

  it('does not say that a pod exceeds an unknown request', () => {
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const pods = [aPod({ name: 'db' }), aPod({ name: 'new', workingSetBytes: 5, unsaid })];
    const ranking = rank('memory.available', pods, 'nodefs-only').map(({ row }) => row);
    expect(whyChosen(ranking, 'uid-new')).toBe(
      'of 2 pods it comes first: its request is unknown (not yet known to the API)',
    );
  });

  it('does not say that a pod without statistics exceeds its request', () => {
    const pods = [aPod({ name: 'db' }), aPod({ name: 'new', usage: { containers: unknown('absent', 'summary', '') } })];
    const ranking = rank('memory.available', pods, 'nodefs-only').map(({ row }) => row);
    expect(whyChosen(ranking, 'uid-new')).toBe('of 2 pods it comes first: it has no statistics');
  });

  it('does not say that a pod within its request exceeds it', () => {
    const requests = { memoryBytes: 100, ephemeralStorageBytes: 0 };
    const pods = ['web', 'db'].map((name, i) => aPod({ name, requests, workingSetBytes: 10 * i }));
    const ranking = rank('memory.available', pods, 'nodefs-only').map(({ row }) => row);
    expect(whyChosen(ranking, 'uid-db')).toBe('of 2 pods it comes first by the highest usage relative to its request');
  });

  it('is one block per eviction: which pod, for what, why this pod, what it freed', () => {
    const joined = joinDecisions(entries().map((body) => entryOf(head, body)));
    const moment = { bootId: 'boot', atMs: 1 };
    const text = historyText(
      aHistory({
        decisions: joined,
        kernelOomKills: [
          { ...moment, atWallMs: BEGAN_WALL_MS + 1, count: 2, pods: ['shop/web'] },
          {
            ...moment,
            atWallMs: BEGAN_WALL_MS + 1_000,
            count: 1,
            pods: [],
            unwatchedSinceWallMs: BEGAN_WALL_MS - 60_000,
          },
        ],
      }),
      '/var/lib/nodewarden',
      plain,
    );
    expect(text).toBe(String.raw`2026-01-31 12:00:00 UTC  b-1 [recorded late]  evicted shop/web
  victim    shop/web (Burstable, priority 0)
  signal    memory.available, hard threshold, met for 100ms
  observed  92 MiB
  threshold 100 MiB
  why       of 2 pods it comes first by the highest usage relative to its request
            shop/db is passed over: it is protected, and chosen only when no other pod is left
  ranking   POD       OVER-REQUEST  PRIORITY  USAGE-OVER-REQUEST
            shop/web  yes           0         300 MiB
            shop/db   yes           0         10 MiB
  differs   from the kubelet in D12
  processes leak\u001b[31m (pid 77) 280 MiB
  grace     none, SIGKILL at once
  reacted   within 2ms
  outcome   ended by sigkill after 36ms, gave back 290 MiB

2026-01-31 12:00:00 UTC  b-2  MemoryPressure is true
2026-01-31 12:00:00 UTC  the kernel's OOM killer killed 2 processes: shop/web
2026-01-31 12:00:01 UTC  the kernel's OOM killer killed 1 process while no agent watched, since 2026-01-31 11:59:00 UTC: unattributed
`);
  });

  it.each([
    [[], 'began to evict shop/web'],
    [[{ of: 'b-1', atMs: 1_001, kind: 'dropped', because: 'no-longer-met' }], 'did not evict shop/web'],
    [[{ of: 'b-1', atMs: 1_001, kind: 'unknown', detail: 'it is away' }], 'may have evicted shop/web'],
    [[{ of: 'b-1', atMs: 9_000, kind: 'survived', left: [], detail: 'in D state' }], 'could not evict shop/web'],
  ] as const)('does not call an attempt an eviction: outcome %j', (outcomes, said) => {
    const bodies = [...entries().slice(0, 2), ...outcomes.map((outcome) => ({ kind: 'outcome', outcome }) as const)];
    const decisions = joinDecisions(bodies.map((body) => entryOf(head, body)));
    expect(historyText(aHistory({ decisions }), '/', plain)).toContain(`  ${said}\n`);
  });

  it('shows the other entries if the body of one is damaged', () => {
    const bodies = entries().map((body) => JSON.parse(JSON.stringify(entryOf(head, body))));
    delete bodies[0].decision.victim;
    bodies[0].decision.id = 'b-\u001b1';
    const kernelOomKills = [JSON.parse(JSON.stringify({ atWallMs: BEGAN_WALL_MS, count: 2 }))];
    const text = historyText(aHistory({ decisions: joinDecisions(bodies), kernelOomKills }), '/', plain);
    expect(text).toBe(String.raw`2026-01-31 12:00:00 UTC  b-\u001b1  damaged in the record
2026-01-31 12:00:00 UTC  b-2  MemoryPressure is true
2026-01-31 12:00:00 UTC  a kernel OOM kill  damaged in the record
`);
  });

  it('prints nothing from a damaged entry unescaped', () => {
    const bodies = entries().map((body) => JSON.parse(JSON.stringify(entryOf(head, body))));
    bodies[0].decision.victim.qos = '\u001b[2J';
    bodies[0].decision.ranking[0].values[0].by = '\u202ename';
    const text = historyText(aHistory({ decisions: joinDecisions(bodies) }), '/', plain);
    expect(text).toContain(String.raw`shop/web (\u001b[2J, priority 0)`);
    expect(text).toContain(String.raw`POD       \u202eNAME`);
  });

  it('prints as JSON nothing that could move text on a terminal', () => {
    const text = jsonText({ pod: 'a\u202eb\u0085c', lines: ['x\ny'] });
    expect(text).toBe('{\n  "pod": "a\\u202eb\\u0085c",\n  "lines": [\n    "x\\ny"\n  ]\n}\n');
    expect(JSON.parse(text)).toEqual({ pod: 'a\u202eb\u0085c', lines: ['x\ny'] });
  });

  it('says so when there is nothing', () => {
    expect(historyText(aHistory({}), 'No decisions.\n', plain)).toBe('No decisions.\n');
  });
});

describe('nodewarden history', () => {
  let directory: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-history-'));
    const text = `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nstateDirectory: ${directory}/state\n`;
    writeFileSync(join(directory, 'config.yaml'), text, { mode: 0o644 });
    mkdirSync(join(directory, 'state'));
    const record = entries().map((body) => sayEntry(entryOf(head, body)));
    writeFileSync(join(directory, 'state', 'record.jsonl'), `${record.join('')}{"schema":1,"atWall`);
    const now = createClock().wallMs();
    const late = entryOf(
      { ...head, bootId: 'later', atWallMs: now - 60_000, dry: true },
      { kind: 'decision', decision: anEviction('d-1'), reasons: [] },
    );
    writeFileSync(join(directory, 'state', 'record-dry.jsonl'), sayEntry(late));
  });
  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  function run(...args: readonly string[]): Promise<{ code: number; out: string; err: string }> {
    const argv = ['--import', 'tsx', 'src/main.ts', 'history', '--config', join(directory, 'config.yaml'), ...args];
    return new Promise((resolve) => {
      const cwd = fileURLToPath(new URL('../..', import.meta.url));
      execFile(process.execPath, argv, { cwd }, (error, out, err) => {
        resolve({ code: error === null ? 0 : Number(error.code), out, err });
      });
    });
  }
  const idsOf = (out: string): readonly string[] =>
    JSON.parse(out).decisions.map(({ decision }: { decision: { id: string } }) => decision.id);

  it('prints everything as JSON, marks dry runs, and counts the line that a killed agent tore', async () => {
    const { code, out, err } = await run('-o', 'json');
    expect(code).toBe(0);
    expect(idsOf(out)).toEqual(['b-1', 'b-2', 'd-1']);
    const { decisions, kernelOomKills } = JSON.parse(out);
    expect(decisions[0]).toMatchObject({ isDeferred: true, evidence: { of: 'b-1' }, outcomes: [{ kind: 'ended' }] });
    expect(decisions[2]).toMatchObject({ dry: true, outcomes: [] });
    expect(kernelOomKills).toEqual([
      { atWallMs: BEGAN_WALL_MS, bootId: 'boot', atMs: 1_100, count: 2, pods: ['shop/web'] },
    ]);
    expect(err).toBe('skipped lines of the record that are incomplete or not JSON: 1\n');
  });

  it('can be limited to evictions, to shutdowns and to a time', async () => {
    expect(idsOf((await run('-o', 'json', '--evictions')).out)).toEqual(['b-1', 'd-1']);
    expect(idsOf((await run('-o', 'json', '--since', '5m')).out)).toEqual(['d-1']);
    expect(idsOf((await run('-o', 'json', '--since', '2026-01-31T12:00:00Z')).out)).toHaveLength(3);
  });

  it('shows the outcome of a decision since that time although the clock had stepped back before it', async () => {
    const decided = entryOf(head, { kind: 'decision', decision: anEviction('b-1'), reasons: [] });
    const ended = entries().find((body) => body.kind === 'outcome');
    if (ended === undefined) throw new Error('no outcome');
    const steppedBack = entryOf({ ...head, atWallMs: head.atWallMs - 7_200_000 }, ended);
    writeFileSync(join(directory, 'state', 'record.jsonl'), sayEntry(decided) + sayEntry(steppedBack));
    const { out } = await run('-o', 'json', '--since', '2026-01-31T12:00:00Z');
    expect(JSON.parse(out).decisions[0]).toMatchObject({ outcomes: [{ kind: 'ended' }] });
  });

  it('is in the order of what happened, and knows how long ago it was, whatever the clock was set to', async () => {
    const [clock, bootId] = [createClock(), readBootId()];
    if (!bootId.known) throw new Error(bootId.detail);
    const minuteMs = 60_000;
    const [wallMs, atMs] = [clock.wallMs(), clock.monoMs()];
    const at = (id: string, agoMs: number, aheadMs: number): string =>
      sayEntry(
        entryOf(
          { bootId: bootId.value, atWallMs: wallMs - agoMs + aheadMs, dry: false },
          {
            kind: 'decision',
            decision: { id, atMs: atMs - agoMs, kind: 'set-condition', condition: 'MemoryPressure', status: true },
            reasons: [],
          },
        ),
      );
    // It was an hour ahead, then an hour behind.
    const told = [at('p-1', 31 * minuteMs, 0), at('p-2', 9 * minuteMs, 60 * minuteMs), at('p-3', 8 * minuteMs, 0)];
    const late = [...told, at('p-4', 7 * minuteMs, -60 * minuteMs)];
    writeFileSync(join(directory, 'state', 'record.jsonl'), late.join(''));
    rmSync(join(directory, 'state', 'record-dry.jsonl'));
    const [json, text] = await Promise.all([run('-o', 'json', '--since', '30m'), run()]);
    expect(idsOf(json.out)).toEqual(['p-2', 'p-3', 'p-4']);
    expect(text.out.match(/p-\d/g)).toEqual(['p-1', 'p-2', 'p-3', 'p-4']);
  });

  it('shows shutdowns and the ends of boots with the decisions, alone, or not at all', async () => {
    const earlier = aBoot('earlier', { bootWallMs: -86_400_000 });
    const crashed = aBoot('crashed', { bootWallMs: -43_200_000 });
    const dry = aBoot('dry', { bootWallMs: -43_200_000, dry: true });
    const told = [earlier.started(1), ...aWholeShutdown(earlier), crashed.started(1), crashed.running(2, 'shop/web')];
    writeFileSync(join(directory, 'state', 'record.jsonl'), told.map(sayEntry).join(''));
    writeFileSync(join(directory, 'state', 'record-dry.jsonl'), aWholeShutdown(dry).map(sayEntry).join(''));

    const runs = [['-o', 'json'], ['-o', 'json', '--shutdowns'], ['-o', 'json', '--evictions'], ['--shutdowns']];
    const since = ['-o', 'json', '--shutdowns', '--since', '2026-01-30T12:01:45Z'];
    const said = await Promise.all([...runs, since].map((args) => run(...args)));
    const [all, shutdowns, evictions, , late] = said.map(({ out }, i) => (i === 3 ? null : JSON.parse(out)));
    const text = said[3]?.out ?? '';
    expect(all.decisions).toHaveLength(8);
    expect(all.shutdowns).toMatchObject([
      { bootId: 'earlier', dry: false, end: { kind: 'released' } },
      { bootId: 'dry', dry: true },
    ]);
    expect(all.boots).toMatchObject([
      { bootId: 'earlier', end: 'graceful' },
      { bootId: 'crashed', end: 'ungraceful', running: { pods: ['shop/web'] } },
      { bootId: 'dry', end: 'graceful', dry: true },
    ]);
    expect(shutdowns).toEqual(all);
    expect(evictions).toMatchObject({ decisions: [], shutdowns: [], boots: [] });
    expect(late.shutdowns).toMatchObject([{ bootId: 'dry' }]);
    // What the end of a boot is told from may be older than what is asked for.
    expect(late.boots).toMatchObject([{ bootId: 'earlier', end: 'graceful' }, {}, {}]);
    expect(text.match(/^2026.*(shutdown|boot)/gm)).toHaveLength(3);
    expect(text).not.toContain('in phase 1 of the shutdown');
  });

  it('says how many entries of shutdowns are damaged, and shows the others', async () => {
    const earlier = aBoot('earlier');
    const damaged = sayEntry(earlier.stopped(1, 'stays')).replace('"stays"', '"flies"');
    const told = [...aWholeShutdown(earlier).map(sayEntry), damaged].join('');
    writeFileSync(join(directory, 'state', 'record.jsonl'), told);
    const { out, err } = await run('--shutdowns');
    expect(err).toBe('damaged entries omitted from the shutdowns: 1\n');
    expect(out).toContain('shutdown (reboot): lock released after 22.5s');
  });

  it('says where it searched, and for what, if there is nothing', async () => {
    rmSync(join(directory, 'state'), { recursive: true });
    const all = await run();
    expect(all).toEqual({ code: 0, out: `No decisions in the record under ${directory}/state.\n`, err: '' });
    const shutdowns = await run('--shutdowns');
    expect(shutdowns).toEqual({ code: 0, out: `No shutdowns in the record under ${directory}/state.\n`, err: '' });
    const late = await run('--evictions', '--since', '2026-01-31T12:00:00Z');
    const since = '2026-01-31T12:00:00.000Z';
    expect(late.out).toBe(`No evictions in the record under ${directory}/state since ${since}.\n`);
  });

  it('does not say that there is nothing if it could not read, with status 1', async () => {
    for (const name of ['record.jsonl', 'record-dry.jsonl']) rmSync(join(directory, 'state', name));
    mkdirSync(join(directory, 'state', 'record.jsonl'));
    const { code, out, err } = await run('--shutdowns');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain(`not read: ${directory}/state/record.jsonl: `);
  });

  it('says once that the directory cannot be read, and prints the JSON of what was read', async () => {
    rmSync(join(directory, 'state'), { recursive: true });
    symlinkSync('state', join(directory, 'state'));
    const { code, out, err } = await run('-o', 'json');
    expect([code, JSON.parse(out).decisions]).toEqual([1, []]);
    expect(err.match(/not read: /g)).toHaveLength(1);
  });

  it.each(['yesterday-ish', '5', '11/25/2026'])(
    'says what a time looks like if it is given %s, with status 2',
    async (when) => {
      const { code, err } = await run('--since', when);
      expect(code).toBe(2);
      expect(err).toContain('Use a duration such as 2h30m, or an instant such as 2026-01-31T12:00:00Z');
    },
  );
});
