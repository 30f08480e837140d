import { expect, it } from 'vitest';
import { undoing } from '../../src/daemon/undoing.ts';
import { createClock } from '../../src/host/clock.ts';
import type { UndoneStops } from '../../src/mode.ts';
import type { ShutdownFact } from '../../src/ports.ts';

it('records how far an undo is that only tries again, waits for it no longer, and records the whole once it is over', async () => {
  const soFar = { started: ['a.service'], notUndone: ['default/b: no answer; retrying'] };
  const all = { started: ['a.service', 'b.service'], notUndone: [] };
  let end: (undone: UndoneStops) => void = () => undefined;
  const rest = new Promise<UndoneStops>((resolve) => {
    end = resolve;
  });
  const facts: ShutdownFact[] = [];
  const quiet = (): void => undefined;
  const { undoStops, isUndoing } = undoing({
    clock: createClock(),
    mode: { undoStops: async () => ({ ...soFar, rest }), setShuttingDown: quiet },
    progress: { seen: quiet, tell: (fact) => void facts.push(fact) },
    wake: quiet,
  });
  undoStops();
  expect(isUndoing()).toBe(true);
  await Promise.resolve();
  await Promise.resolve();
  expect(isUndoing()).toBe(false);
  expect(facts).toEqual([{ what: 'undone', ...soFar }]);
  end(all);
  await rest;
  expect(facts.slice(1)).toEqual([{ what: 'undone', ...all }]);
});
