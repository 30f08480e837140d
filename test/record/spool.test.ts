import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { Finding } from '../../src/ports.ts';
import { createSpool } from '../../src/record/writing/spool.ts';

/** A disk whose check or write, as named, does not return before it answers; ten seconds pass at once. */
function aHungDisk(hung: 'check' | 'append') {
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
    expect(said()).toEqual(['the disk of the record has not answered for 10s: entries are kept in memory']);
    answer();
    await drained;
    expect(said()).toEqual([]);
  });
});
