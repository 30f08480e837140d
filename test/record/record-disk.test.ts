import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createClock, within } from '../../src/host/clock.ts';
import { joinDecisions } from '../../src/record/entry.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { MI } from '../a.ts';
import { aRecorder, aStep, until } from './a-recorder.ts';

const isRoot = process.getuid?.() === 0;
const hasLoop = existsSync('/dev/loop-control');
const clock = createClock();
const { at, openRecorder, closeAll } = aRecorder();

/** A disk of 1 MiB. */
async function onSmallDisk(body: (full: string) => Promise<void>): Promise<void> {
  const full = at('full');
  mkdirSync(full);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', full]);
  try {
    await body(full);
  } finally {
    await closeAll();
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

/** On a busy machine both timers are late, but they fire in their order. */
const first = (intent: Promise<string>): Promise<string> => within(clock, 1_000, intent, () => 'late');

describe('a disk that is full [needs root for a tmpfs of 1 MiB]', () => {
  it.skipIf(!isRoot)('delays no intent, loses nothing, and tears no line', async () => {
    await onSmallDisk(async (full) => {
      const { recorder, findings } = openRecorder({ recordDirectory: full });
      expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
      fill(full);
      for (let i = 2; i <= 200; i++) {
        // A line's length, so that one of them meets the end of the disk in its middle.
        const how = await first(recorder.intent(aStep(`b-${i}`), 50));
        expect(how).not.toBe('late');
        if (i > 100) expect(how).toBe('deferred');
      }
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
  it.skipIf(!isRoot)('never truncates what the other one appended', async () => {
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
    'delays no intent beyond its deadline, and receives everything when it recovers',
    async () => {
      const [image, mount] = [at('image'), at('mount')];
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
          // From here on write(2) itself blocks: this thread must not be the one that calls it.
          for (const id of ['b-2', 'b-3', 'b-4']) expect(await first(recorder.intent(aStep(id), 50))).toBe('deferred');
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
        await closeAll();
        execFileSync('umount', ['-l', mount]);
      }
    },
  );
});

describe('a record file that somebody removes, moves or replaces', () => {
  const recorded = (): readonly string[] =>
    joinDecisions(readRecord(at('record')).entries).map(({ decision }) => decision.id);

  it('is recreated with all its content, in a directory of the same mode', async () => {
    mkdirSync(at('record'), { mode: 0o700 });
    const { recorder } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    rmSync(at('record'), { recursive: true });
    // Before anybody notices.
    expect(await recorder.intent(aStep('b-2'), 2_000)).toBe('durable');
    recorder.checkRecord();
    await until(() => recorded().length > 0);
    expect(await recorder.intent(aStep('b-3'), 2_000)).toBe('durable');
    expect(recorded()).toEqual(['b-1', 'b-2', 'b-3']);
    expect(statSync(at('record')).mode & 0o777).toBe(0o700);
  });

  it.each(['with its directory', 'alone'])('when moved away, %s, is recreated with all its content', async (how) => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    const file = at('record', 'record.jsonl');
    if (how === 'alone') renameSync(file, `${file}.aside`);
    else {
      renameSync(at('record'), at('aside'));
      mkdirSync(at('record'));
    }
    recorder.checkRecord();
    await until(() => recorded().length > 0);
    await recorder.intent(aStep('b-2'), 2_000);
    await until(() => recorded().includes('b-2'));
    expect(recorded()).toEqual(['b-1', 'b-2']);
  });

  it('when rotated as by the agent, continues in a new file, without duplicates', async () => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    const file = at('record', 'record.jsonl');
    renameSync(file, `${file}.1`);
    recorder.checkRecord();
    await recorder.intent(aStep('b-2'), 2_000);
    await until(() => recorded().includes('b-2'));
    // What it was decided from follows the decision, and may come after the rotation.
    expect(readFileSync(file, 'utf8')).not.toContain('"id":"b-1"');
    expect(recorded()).toEqual(['b-1', 'b-2']);
  });

  it('when replaced, continues in the new file, without what that may already contain', async () => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    recorder.checkRecord();
    await recorder.intent(aStep('b-2'), 2_000);
    const file = at('record', 'record.jsonl');
    const [first = ''] = readFileSync(file, 'utf8').split('\n');
    writeFileSync(`${file}.new`, `${first}\n`);
    renameSync(`${file}.new`, file);
    recorder.checkRecord();
    await until(() => recorded().length > 1);
    expect(recorded()).toEqual(['b-1', 'b-2']);
  });

  it('when replaced by a pipe, is reported, and the pipe is opened no more often than it is closed', async () => {
    const file = at('record', 'record.jsonl');
    mkdirSync(at('record'), { recursive: true });
    execFileSync('mkfifo', [file]);
    const { recorder, findings } = openRecorder();
    const open = (): number => readdirSync('/proc/self/fd').filter((fd) => isPipe(fd)).length;
    const isPipe = (fd: string): boolean => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === file;
      } catch {
        return false;
      }
    };
    expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('deferred');
    await until(() => findings.all().some(({ text }) => text.includes('not a regular file')));
    await until(() => open() === 0);
    rmSync(file);
    await until(() => recorded().length === 1);
  });

  it('when it cannot be recreated, keeps new lines in memory, and reports it', async () => {
    const { recorder, findings } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    rmSync(at('record'), { recursive: true });
    writeFileSync(at('record'), '');
    recorder.checkRecord();
    expect(await recorder.intent(aStep('b-2'), 30_000)).toBe('deferred');
    expect(
      findings
        .all()
        .map(({ text }) => text)
        .join(),
    ).toContain('removed while in use');
    rmSync(at('record'));
    await until(() => findings.all().length === 0);
    expect(recorded()).toEqual(['b-1', 'b-2']);
  });
});
