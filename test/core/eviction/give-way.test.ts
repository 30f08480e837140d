import { describe, expect, it } from 'vitest';
import { firstCandidate } from '../../../src/core/eviction/candidate.ts';
import { rank } from '../../../src/core/eviction/rank.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import type { Signal } from '../../../src/core/signal.ts';
import { aPod, MI } from '../../a.ts';

const undeclared = { why: 'undeclared', priority: true, requests: true } as const;
const unreadable = { why: 'unreadable', priority: false, requests: true } as const;

type Case = {
  readonly signal: Signal;
  readonly lacking: number;
  readonly guarded?: readonly string[];
  readonly heldByVictims?: number;
};
/** Who is chosen. */
function victim(
  { signal, lacking, guarded = [], heldByVictims = 0 }: Case,
  pods: readonly PodView[],
): string | undefined {
  const ranking = rank(signal, pods, 'nodefs-only');
  const isGuarded = ({ name }: PodView): boolean => guarded.includes(name);
  return firstCandidate(signal, ranking, [], isGuarded, lacking, { amount: heldByVictims }).victim?.name;
}

describe('among undeclared pods, under PID pressure', () => {
  const pids = { signal: 'pid.available', lacking: 50 } as const;
  /** It ranks by its processes, and gives back its threads too. */
  const hidden = (
    name: string,
    processes: number,
    pidsHeld: number,
    unsaid: PodView['unsaid'] | null = undeclared,
  ): PodView => {
    const pod = aPod({ name, processes, ...(unsaid === null ? {} : { unsaid }) });
    return { ...pod, usage: { ...pod.usage, pidsHeld: known(pidsHeld) } };
  };
  const many = hidden('many', 90, 60);
  const threads = hidden('threads', 60, 90);

  it('the one whose end frees most is chosen, not the one that ranks first', () => {
    expect(victim(pids, [many, threads])).toBe('threads');
    expect(victim(pids, [threads, many])).toBe('threads');
  });

  it('the ranking chooses between those that free as much', () => {
    const pods = [hidden('c', 60, 80), hidden('a', 80, 80), hidden('b', 70, 80)];
    expect(victim(pids, pods)).toBe('a');
    expect(victim(pids, pods.toReversed())).toBe('a');
  });

  it('one whose owner lost too many yields to the others', () => {
    expect(victim({ ...pids, guarded: ['threads'] }, [many, threads])).toBe('many');
    expect(victim({ ...pids, guarded: ['many', 'threads'] }, [many, threads])).toBe('threads');
  });

  it('one that frees exactly what is lacking is chosen, before a declared one that frees less', () => {
    const web = hidden('web', 40, 49, null);
    expect(victim(pids, [hidden('just', 9, 50), web])).toBe('just');
    expect(victim(pids, [hidden('short', 9, 49), web])).toBe('web');
    expect(victim(pids, [hidden('short', 9, 49)])).toBe(undefined);
  });

  it('a declared one that frees exactly what is lacking is chosen before them', () => {
    expect(victim(pids, [hidden('just', 9, 90), hidden('web', 40, 50, null)])).toBe('web');
  });

  it('if none frees enough and their declarations cannot be read, the one that frees most is chosen', () => {
    const [few, some] = [hidden('few', 30, 20, unreadable), hidden('some', 20, 30, unreadable)];
    expect(victim(pids, [few, some])).toBe('some');
    expect(victim(pids, [some, few])).toBe('some');
  });
});

describe('pods that others have deleted (C10)', () => {
  const deleted = { isDeletedByOthers: true, priority: 1_000 } as const;

  it('come before a pod within its request, but not under PID pressure: PIDs cannot be requested', () => {
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const pods = [
      aPod({ name: 'db', workingSetBytes: 8 * MI, processes: 4, requests }),
      aPod({ name: 'old', workingSetBytes: 7 * MI, processes: 9, requests, ...deleted }),
    ];
    expect(victim({ signal: 'memory.available', lacking: 7 * MI }, pods)).toBe('old');
    expect(victim({ signal: 'memory.available', lacking: 7 * MI + 1 }, pods)).toBe('db');
    expect(victim({ signal: 'pid.available', lacking: 9 }, pods)).toBe('db');
  });

  it('free their swap if swap is short, and none if the kernel does not say how much they have', () => {
    const requests = { memoryBytes: 9 * MI, ephemeralStorageBytes: 0 };
    const old = (usage: Partial<PodView['usage']>): string | undefined => {
      const pod = aPod({ name: 'old', workingSetBytes: 2 * MI, requests, ...deleted });
      const db = aPod({ name: 'db', workingSetBytes: 8 * MI, requests });
      return victim({ signal: 'swap.available', lacking: MI }, [db, { ...pod, usage: { ...pod.usage, ...usage } }]);
    };
    expect(old({ swapBytes: known(MI) })).toBe('old');
    expect(old({ swapBytes: known(MI - 1) })).toBe('db');
    expect(old({})).toBe('db');
  });
});

describe('a stall, whose causes nobody can measure', () => {
  it('ranks undeclared pods like all others', () => {
    const stall = { signal: 'memory.stallFree', lacking: 1_000 } as const;
    const unsaid = { ...undeclared, requests: false };
    const pods = [
      aPod({ name: 'small', workingSetBytes: MI, unsaid }),
      aPod({ name: 'large', workingSetBytes: 9 * MI, unsaid }),
    ];
    expect(victim(stall, pods)).toBe('large');
    expect(victim(stall, pods.toReversed())).toBe('large');
  });
});

describe('while a victim still holds memory', () => {
  it('a pod that exceeds its request dies for it only if it does so by at least a tenth of that', () => {
    const held = { signal: 'memory.available', lacking: MI, heldByVictims: 100 * MI } as const;
    expect(victim(held, [aPod({ workingSetBytes: 10 * MI - 1 })])).toBe(undefined);
    expect(victim(held, [aPod({ name: 'hog', workingSetBytes: 10 * MI })])).toBe('hog');
  });

  it("a stall is nobody else's fault than that of a pod that exceeds its request", () => {
    const web = aPod({ name: 'web', workingSetBytes: 10 * MI });
    const hidden = aPod({ name: 'hidden', workingSetBytes: 50 * MI, unsaid: undeclared });
    expect(victim({ signal: 'memory.stallFree', lacking: 1 }, [hidden, web])).toBe('web');
  });
});

describe('undeclared BestEffort pods, which are known to request nothing', () => {
  const small = (name: string, mebibytes: number): PodView =>
    aPod({ name, workingSetBytes: mebibytes * MI, qos: 'BestEffort', unsaid: { ...undeclared, requests: false } });
  const hidden = (name: string): PodView => aPod({ name, workingSetBytes: 880 * MI, unsaid: undeclared });
  const short = { signal: 'memory.available', lacking: 5 * MI } as const;
  const innocents = [small('ba', 7), small('bb', 21), small('bc', 87)];

  it('do not die, however many, in place of one that holds more than ten times as much', () => {
    expect(victim(short, [hidden('hog'), ...innocents])).toBe('hog');
    expect(victim(short, [hidden('hog'), hidden('db'), ...innocents])).toBe(undefined);
    expect(victim(short, [{ ...hidden('hog'), limitedBy: 'unnamed' }, ...innocents])).toBe(undefined);
    expect(victim({ ...short, heldByVictims: 880 * MI }, innocents)).toBe(undefined);
  });

  it('are told apart from those of which nothing is known', () => {
    const ranking = rank('memory.available', [hidden('hog'), hidden('db'), ...innocents], 'nodefs-only');
    const { passedOver } = firstCandidate('memory.available', ranking, [], () => false, 5 * MI);
    const because = passedOver.map((reason) => reason.code === 'passed-over' && `${reason.uid} ${reason.because}`);
    expect(because.toSorted()).toEqual([
      'uid-ba too-little',
      'uid-bb too-little',
      'uid-bc too-little',
      'uid-db declaration-unknown',
      'uid-hog declaration-unknown',
    ]);
  });

  it('die first if they hold a tenth of that', () => {
    expect(victim(short, [hidden('hog'), hidden('db'), small('bd', 88), ...innocents])).toBe('bd');
  });

  it('come before a declared pod within its request', () => {
    const db = aPod({
      name: 'db',
      workingSetBytes: 50 * MI,
      requests: { memoryBytes: 60 * MI, ephemeralStorageBytes: 0 },
    });
    expect(victim(short, [db, small('ba', 7)])).toBe('ba');
  });
});

describe('pods whose declarations cannot be read, and whose requests are known', () => {
  const read = (name: string, used: number, requested: number): PodView =>
    aPod({
      name,
      workingSetBytes: used * MI,
      requests: { memoryBytes: requested * MI, ephemeralStorageBytes: 0 },
      unsaid: { ...unreadable, requests: false },
    });
  const awaited = aPod({ name: 'awaited', workingSetBytes: 500 * MI, limitedBy: 'unnamed', unsaid: undeclared });

  it('die within their requests only after those that exceed them, however little', () => {
    const pods = [read('within', 2_000, 3_000), read('over', 50, 10)];
    expect(victim({ signal: 'memory.available', lacking: 1_000 * MI }, pods)).toBe('over');
    expect(victim({ signal: 'memory.available', lacking: 1_000 * MI }, [...pods, awaited])).toBe('over');
  });
});

describe('several undeclared pods, some of which hold less than is lacking', () => {
  const hidden = (name: string, mebibytes: number): PodView =>
    aPod({ name, workingSetBytes: mebibytes * MI, processes: mebibytes, unsaid: undeclared });
  const web = hidden('web', 951);
  const leaks = [hidden('leak0', 100), hidden('leak1', 100)];
  const short = (mebibytes: number) => ({ signal: 'memory.available', lacking: mebibytes * MI }) as const;

  it('cost none of them its life while the others together may be the cause', () => {
    expect(victim(short(125), [web, ...leaks])).toBe(undefined);
    expect(victim(short(200), [web, ...leaks])).toBe(undefined);
    expect(victim(short(201), [web, ...leaks])).toBe('web');
  });

  it('count together with those that nobody has named yet', () => {
    const unnamed: PodView = { ...hidden('new', 100), limitedBy: 'unnamed' };
    expect(victim(short(150), [web, hidden('leak', 100), unnamed])).toBe(undefined);
    expect(victim(short(201), [web, hidden('leak', 100), unnamed])).toBe('web');
  });

  it('save a declared pod within its request, not one that exceeds it', () => {
    const requests = { memoryBytes: 2_000 * MI, ephemeralStorageBytes: 0 };
    const db = aPod({ name: 'db', workingSetBytes: 1_500 * MI, requests });
    expect(victim(short(125), [db, ...leaks])).toBe(undefined);
    expect(victim(short(201), [db, ...leaks])).toBe('db');
    expect(victim(short(125), [db, ...leaks, aPod({ name: 'over', workingSetBytes: 50 * MI })])).toBe('over');
  });

  it('save one that holds fewer process IDs than are lacking', () => {
    const pids = { signal: 'pid.available', lacking: 150 } as const;
    const db = aPod({ name: 'db', processes: 149 });
    expect(victim(pids, [db, ...leaks])).toBe(undefined);
    expect(victim({ ...pids, lacking: 201 }, [db, ...leaks])).toBe('db');
  });

  it('are passed over with another reason than the one that is chosen, or may be', () => {
    const because = (lacking: number) => {
      const ranking = rank('memory.available', [web, ...leaks], 'nodefs-only');
      const { passedOver, nobody } = firstCandidate('memory.available', ranking, [], () => false, lacking * MI);
      return [
        nobody,
        ...passedOver.map((reason) => reason.code === 'passed-over' && `${reason.uid} ${reason.because}`),
      ];
    };
    const small = ['uid-leak0 undeclared-holds-less', 'uid-leak1 undeclared-holds-less'];
    expect(because(125)).toEqual(['awaited', ...small, 'uid-web declaration-unknown']);
    expect(because(201)).toEqual([null, ...small]);
    expect(because(100).slice(0, 1)).toEqual(['awaited']);
  });
});
