import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { Finding } from '../../src/ports.ts';
import { createSpool } from '../../src/record/writing/spool.ts';

/** A disk whose check or write, as named, does not return before it answers; ten seconds pass at once. */
function aHungDisk(hung: 'check' | 'append', hasThread = true) {
  const present = new Map<string, Finding>();
  const timers = new Set<() => void>();
  let answer = (): void => {};
  const hangs = new Promise<void>((resolve) => {
    answer = resolve;
  });
  let isHung = false;
  const wait = async (call: 'check' | 'append'): Promise<void> => {
    if (isHung && call === hung) await hangs;
  };
  const spool = createSpool({
    clock: {
      monoMs: () => 0,
      wallMs: () => 0,
      after: (_, run) => {
        timers.add(run);
        return () => void timers.delete(run);
      },
    },
    disk: {
      append: async () => {
        await wait('append');
        return known(true);
      },
      check: () => wait('check'),
      close: async () => {},
      reopen: () => {},
    },
    findings: {
      raise: (finding) => void present.set(finding.id, finding),
      clear: (id) => void present.delete(id),
      all: () => [...present.values()],
    },
    isThreadFree: async () => hasThread,
    sayLost: () => '',
  });
  return {
    spool,
    hang: () => {
      isHung = true;
    },
    tenSeconds: () => {
      for (const run of timers) run();
    },
    answer: () => answer(),
    said: () => [...present.values()].map(({ text }) => text),
  };
}

describe('a disk of the record that does not answer', () => {
  it.each(['check', 'append'] as const)('is a finding until it answers: %s', async (hung) => {
    const { spool, hang, tenSeconds, answer, said } = aHungDisk(hung);
    await spool.drained();
    hang();
    spool.check();
    const drained = spool.drained();
    await Promise.resolve();
    tenSeconds();
    await Promise.resolve();
    expect(said()).toEqual(['the disk of the record has not answered for 10s: entries are kept in memory']);
    answer();
    await drained;
    expect(said()).toEqual([]);
  });

  it('is not blamed while calls to any file system hold all threads', async () => {
    const { spool, hang, tenSeconds, answer, said } = aHungDisk('append', false);
    await spool.drained();
    hang();
    spool.put('x');
    const drained = spool.drained();
    tenSeconds();
    await Promise.resolve();
    expect(said()).toEqual([
      'the record has not been written for 10s, because file systems that do not answer hold all threads that access files: entries are kept in memory',
    ]);
    answer();
    await drained;
    expect(said()).toEqual([]);
  });

  it('is not reported if it answers before that is known', async () => {
    const { spool, hang, tenSeconds, answer, said } = aHungDisk('append');
    await spool.drained();
    hang();
    spool.put('x');
    const drained = spool.drained();
    answer();
    tenSeconds();
    await drained;
    await Promise.resolve();
    expect(said()).toEqual([]);
  });
});
