import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import type { BootEndSaid } from '../../src/ports.ts';
import { sayEntry } from '../../src/record/entry.ts';
import { readRecord, recordName } from '../../src/record/reading/record-file.ts';
import { shutdownsOf } from '../../src/record/reading/shutdowns.ts';
import { createBootNotes } from '../../src/record/writing/boot-notes.ts';
import { createRecorders } from '../../src/record/writing/recorder.ts';
import { aRecorder, until } from './a-recorder.ts';
import { aBoot } from './a-shutdown.ts';

const clock = createClock();
const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

describe('the notes about boots', () => {
  const { at, openRecorder } = aRecorder();

  /** One run of the agent: its parts, one after the other by reload, dry or not. What they report about the last boot. */
  async function run(bootId: string, turns: readonly boolean[], end: 'goes-down' | 'stays' | 'power-cut') {
    const open = createRecorders();
    const startedIn = { record: null };
    const reports: string[] = [];
    for (const [i, dry] of turns.entries()) {
      const stateFile = at(dry ? 'state-dry.json' : 'state.json');
      const { recorder, findings } = openRecorder({ dry, bootId, stateFile }, open);
      const tell = (said: BootEndSaid) =>
        reports.push(`${said.bootId} ${said.end}${said.isNew ? '' : ', said before'}`);
      const running = () => [{ namespace: 'shop', name: 'web' }];
      const mode = { isSettled: () => true, running, shows: { lastBoot: tell } };
      const notes = createBootNotes({
        ...{ clock, bootId, directory: at('record'), dry, startedIn, counters: { lastShutdown: () => {} } },
        parts: { log, findings, recorder, mode },
      });
      await notes.tell();
      notes.seen(clock.monoMs());
      const next = turns[i + 1];
      if (next !== undefined) notes.goesOn({ stateDirectory: at('record'), dryRun: next });
      else if (end !== 'power-cut') notes.stopped(end);
      notes.close();
      await recorder.close();
    }
    return reports;
  }
  const recorded = (dry: boolean) => readRecord(at('record'), { dry }).entries;
  const notesIn = (dry: boolean) => recorded(dry).flatMap((entry) => (entry.kind === 'note' ? [entry.note.kind] : []));

  it('take no reload between a dry run and a live one for an end without a shutdown', async () => {
    expect(await run('a', [true, false], 'goes-down')).toEqual([]);
    expect(await run('b', [false], 'goes-down')).toEqual(['a graceful']);
    expect(await run('c', [false, true], 'goes-down')).toEqual(['b graceful', 'b graceful, said before']);
    expect(await run('d', [true, false], 'goes-down')).toEqual(['c graceful', 'c graceful']);
    expect(await run('e', [true], 'stays')).toEqual(['d graceful']);
  });

  it('report a power cut, whichever way the agent was switched before', async () => {
    await run('a', [false, true], 'power-cut');
    expect(await run('b', [false], 'goes-down')).toEqual(['a ungraceful']);
    await run('c', [true, false], 'power-cut');
    expect(await run('d', [false], 'goes-down')).toEqual(['c ungraceful']);
  });

  it('say of a boot in dry run that it was the last', async () => {
    await run('a', [false], 'power-cut');
    await run('b', [true], 'goes-down');
    expect(await run('c', [false], 'goes-down')).toEqual(['b graceful']);
  });

  it('judge a boot by the live run beside which a dry run was stopped', async () => {
    await run('a', [false], 'power-cut');
    await run('a', [true], 'stays');
    expect(await run('b', [false], 'stays')).toEqual(['a ungraceful']);
    expect(shutdownsOf([...recorded(false), ...recorded(true)], 'b').boots.map(({ end }) => end)).toEqual([
      'ungraceful',
    ]);
  });

  it('judge it so also if the start of the dry run is in a file of the record that was removed', async () => {
    await run('a', [false], 'power-cut');
    await run('a', [true], 'stays');
    const file = at('record', recordName(true));
    const rest = recorded(true).filter((entry) => entry.kind !== 'note' || entry.note.kind !== 'started');
    writeFileSync(file, rest.map(sayEntry).join(''));
    expect(notesIn(true)).toEqual(['running', 'stopped']);
    expect(await run('b', [false], 'stays')).toEqual(['a ungraceful']);
  });

  it('report once in a boot, and once more in what a dry run does not change', async () => {
    await run('a', [false], 'power-cut');
    expect(await run('b', [true, false, true, false], 'stays')).toEqual([
      'a ungraceful',
      'a ungraceful',
      'a ungraceful, said before',
      'a ungraceful, said before',
    ]);
    expect(await run('b', [false], 'stays')).toEqual(['a ungraceful, said before']);
  });

  it('record a start and an end in each record, and nothing for other parts of the same', async () => {
    await run('a', [false, false, true, false], 'stays');
    const ofRuns = ['started', 'running', 'stopped'];
    expect(notesIn(false)).toEqual(['started', 'running', 'running', 'stopped', ...ofRuns]);
    expect(notesIn(true)).toEqual(ofRuns);
  });

  it('keep the start of a run that is stopped before it could report', async () => {
    const stopAtOnce = async (bootId: string) => {
      const { recorder, findings } = openRecorder({ bootId, dry: true, stateFile: at('state-dry.json') });
      const notes = createBootNotes({
        ...{ clock, bootId, directory: at('record'), dry: true, startedIn: { record: null } },
        counters: { lastShutdown: () => {} },
        parts: { log, findings, recorder, mode: { isSettled: () => false, running: () => [] } },
      });
      notes.stopped('stays');
      notes.close();
      await recorder.close();
    };
    await run('a', [false], 'power-cut');
    await stopAtOnce('a');
    expect(notesIn(true)).toEqual(['started', 'stopped']);
    await stopAtOnce('b');
    expect(await run('b', [true], 'stays')).toEqual(['a ungraceful']);
  });

  it('leave the report to the next parts if a reload came before it', async () => {
    mkdirSync(at('record'));
    writeFileSync(at('record', 'record.jsonl'), sayEntry(aBoot('a').started(1)), { mode: 0o640 });
    const startedIn = { record: null };
    const { recorder, findings } = openRecorder({ bootId: 'b' });
    const needs = {
      ...{
        clock,
        bootId: 'b',
        directory: at('record'),
        dry: false,
        startedIn,
        counters: { lastShutdown: () => {} },
      },
      parts: { log, findings, recorder, mode: { isSettled: () => false, running: () => [] } },
    };
    const first = createBootNotes(needs);
    const told = first.tell();
    first.close();
    await told;
    expect([findings.all(), startedIn.record]).toEqual([[], null]);
    await createBootNotes(needs).tell();
    expect(findings.all().map(({ id }) => id)).toEqual(['last-boot']);
    await until(() => notesIn(false).length > 2);
    expect(notesIn(false)).toEqual(['started', 'finding', 'started']);
  });
});
