import { expect, onTestFinished } from 'vitest';
import type { ShutdownEvent } from '../../src/core/observation.ts';
import type { Clock } from '../../src/ports.ts';
import { type InhibitorNeeds, keepInhibitor } from '../../src/shutdown/inhibitor.ts';
import { aTree } from '../host/tree.ts';
import { createVirtualClock } from '../virtual-node.ts';
import { scriptedLogind } from './scripted-logind.ts';

export const WALL_MS = 1_800_000_000_000;
export const OWN = 'run/systemd/logind.conf.d';
export const DROP_IN = `${OWN}/zz-nodewarden.conf`;
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The real inhibitor and drop-in, on virtual time and a scripted logind. */
export function kept(given: Partial<InhibitorNeeds> = {}, files: { readonly [path: string]: string } = {}) {
  const root = aTree(files);
  const virtual = createVirtualClock(WALL_MS);
  const timers = new Set<object>();
  const clock = { ...virtual, after: (ms: number, run: () => void) => countedAfter(timers, virtual, ms, run) };
  const scripted = scriptedLogind(root);
  const events: (ShutdownEvent & { readonly atMs: number })[] = [];
  const logged: string[] = [];
  const log = (_: object, text: string): void => void logged.push(text);
  let changes = 0;
  let notHonoured = 0;
  const inhibitor = keepInhibitor({
    clock,
    logind: scripted.logind,
    takeLock: scripted.takeLock,
    dropIn: scripted.dropIn,
    log: { debug: log, info: log, warn: log, error: log },
    onEvent: (event) => events.push({ ...event, atMs: clock.monoMs() }),
    onChange: () => {
      changes += 1;
    },
    onCancelNotHonoured: () => {
      notHonoured += 1;
    },
    ...given,
  });
  onTestFinished(() => inhibitor.close());
  return {
    ...scripted,
    root,
    clock,
    inhibitor,
    events,
    logged,
    /** What would keep the process alive. */
    timers: () => timers.size,
    changes: () => changes,
    notHonoured: () => notHonoured,
    lock: () => inhibitor.status().lock,
    pass: (ms: number) => clock.run(clock.monoMs() + ms, settled, new AbortController().signal),
    times: (call: string) => scripted.calls.filter((name) => name === call).length,
    kinds: () => events.map(({ kind }) => kind),
  };
}
function countedAfter(timers: Set<object>, { after }: Clock, ms: number, run: () => void): () => void {
  const timer = {};
  timers.add(timer);
  const cancel = after(ms, () => {
    timers.delete(timer);
    run();
  });
  return () => {
    timers.delete(timer);
    cancel();
  };
}
export type Kept = ReturnType<typeof kept>;

export async function armed(given: Partial<InhibitorNeeds> = {}): Promise<Kept> {
  const all = kept(given);
  all.inhibitor.want(30_000);
  await all.pass(100);
  expect(all.lock()).toMatchObject({ kind: 'armed' });
  return all;
}

/** `systemctl poweroff`, as logind shows it. */
export async function poweroff({ now, signal, pass }: Kept): Promise<void> {
  now.isPreparing = true;
  signal.preparing(true);
  await pass(0);
}
