import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { LockChild, TakeLock } from '../../src/host/systemd/inhibit-child.ts';
import type { InhibitorLock, Logind, ScheduledShutdown } from '../../src/host/systemd/logind.ts';
import { createLogindDropIn, type LogindDropIn } from '../../src/host/systemd/logind-drop-in.ts';

type Listeners<T> = { readonly add: (heard: (value: T) => void) => () => void; readonly tell: (value: T) => void };

function listeners<T>(): Listeners<T> {
  const all = new Set<(value: T) => void>();
  return {
    add: (heard) => {
      all.add(heard);
      return () => void all.delete(heard);
    },
    tell: (value) => {
      for (const heard of [...all]) heard(value);
    },
  };
}

/** What logind and its locks do on demand; the faults of a real one cannot be had when they are wanted. */
export type ScriptedLogind = {
  readonly logind: Logind;
  readonly takeLock: TakeLock;
  readonly dropIn: LogindDropIn;
  /** What the next calls see. `take`: how a lock child fares; `hangs` until `letTake`. */
  readonly now: {
    delayMs: number;
    isPreparing: boolean;
    schedule: ScheduledShutdown | null;
    isUp: boolean;
    /** It has ended, and systemd carries out no shutdown. */
    hasDied: boolean;
    doesReload: boolean;
    doesList: boolean;
    isKubeletArmed: boolean;
    take: 'held' | 'fails' | 'too-late' | 'hangs';
  };
  readonly letTake: () => void;
  /** Processes that hold a lock. */
  readonly locks: () => readonly number[];
  readonly endChild: (pid: number) => void;
  readonly calls: string[];
  readonly signal: {
    readonly preparing: (is: boolean) => void;
    readonly type: (type: string) => void;
    readonly inhibitors: () => void;
    readonly schedule: () => void;
    readonly ended: () => void;
    readonly restarted: () => void;
    readonly up: () => void;
  };
};

const DOWN = unknown('absent', 'the system bus', 'the connection was closed');

/** `root`: where its configuration files are, which it reads on reload. */
export function scriptedLogind(root: string): ScriptedLogind {
  const dropIn = createLogindDropIn('/run/nodewarden', root);
  const now: ScriptedLogind['now'] = {
    delayMs: 5_000,
    isPreparing: false,
    schedule: null,
    isUp: true,
    hasDied: false,
    doesReload: true,
    doesList: true,
    isKubeletArmed: false,
    take: 'held',
  };
  const calls: string[] = [];
  const children = new Map<number, (detail: string) => void>();
  const preparing = listeners<boolean>();
  const type = listeners<string>();
  const inhibitors = listeners<void>();
  const schedule = listeners<void>();
  const ended = listeners<void>();
  const restarted = listeners<void>();
  const up = listeners<void>();
  let nextPid = 1_000;
  let letTake: () => void = () => undefined;

  const list = (): readonly InhibitorLock[] => {
    const pids = [...children.keys()];
    const kubelets = now.isKubeletArmed ? [{ ...lockOf(8), who: 'kubelet' }] : [];
    return [lockOf(7), ...kubelets, ...pids.flatMap(notOurs), ...(now.doesList ? pids.map(lockOf) : [])];
  };
  const ask = <T>(name: string, value: () => T): Promise<Reading<T>> => {
    calls.push(name);
    return Promise.resolve(now.isUp && !now.hasDied ? known(value()) : DOWN);
  };

  function aChild(): LockChild {
    nextPid += 1;
    const pid = nextPid;
    const heard: ((detail: string) => void)[] = [];
    const end = (detail: string): void => {
      if (children.delete(pid)) for (const run of heard) run(detail);
    };
    children.set(pid, end);
    return { pid, release: async () => end('released'), whenGone: (run) => void heard.push(run) };
  }

  return {
    now,
    dropIn,
    calls,
    takeLock: async () => {
      calls.push('take');
      if (now.take === 'hangs') await new Promise<void>((resolve) => (letTake = resolve));
      if (now.take === 'fails') return { kind: 'failed', why: unknown('absent', 'systemd-inhibit', 'not installed') };
      if (now.take === 'too-late') return { kind: 'too-late', detail: 'is already running' };
      return { kind: 'held', child: aChild() };
    },
    letTake: () => letTake(),
    locks: () => [...children.keys()],
    endChild: (pid) => children.get(pid)?.('systemd-inhibit was ended by SIGKILL'),
    logind: {
      inhibitDelayMaxMs: () => ask('delay', () => now.delayMs),
      preparingForShutdown: () => ask('preparing', () => now.isPreparing),
      hasDied: async () => now.hasDied,
      inhibitors: () => ask('list', list),
      scheduledShutdown: () => ask('schedule', () => now.schedule),
      reload: () =>
        ask('reload', () => {
          const winner = dropIn.winner();
          if (now.doesReload && winner.known) now.delayMs = winner.value?.delayMs ?? 5_000;
          return true as const;
        }),
      whenPreparing: preparing.add,
      whenTypeTold: type.add,
      whenInhibitorsChange: inhibitors.add,
      whenScheduleChanges: schedule.add,
      whenEnded: ended.add,
      whenRestarted: restarted.add,
      whenUp: up.add,
      isUp: () => now.isUp,
    },
    signal: {
      preparing: preparing.tell,
      type: type.tell,
      inhibitors: inhibitors.tell,
      schedule: schedule.tell,
      ended: ended.tell,
      restarted: restarted.tell,
      up: up.tell,
    },
  };
}

const lockOf = (pid: number): InhibitorLock => ({
  what: 'shutdown',
  who: 'nodewarden',
  why: 'test',
  mode: 'delay',
  uid: 0,
  pid,
});
/** What is not the lock on shutdown of this agent, however like it. */
const notOurs = (pid: number): readonly InhibitorLock[] => [
  { ...lockOf(pid), who: 'another agent' },
  { ...lockOf(pid), what: 'sleep:handle-power-key' },
  { ...lockOf(pid), mode: 'block' },
];
