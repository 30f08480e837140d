import { describe, expect, it } from 'vitest';
import { NO_FAULTS } from '../../../src/simulate/guard/device.ts';
import type { Action } from '../../../src/simulate/guard/facts.ts';
import type { World } from '../../../src/simulate/guard/world.ts';
import { aWorld } from './a-world.ts';

const DEADLINE_MS = 40_000;

function ask(world: World, method: string, action: Action): { readonly said: string; readonly tookMs: number } {
  const startMs = world.agenda.now();
  let said = '';
  let endMs = startMs;
  world.devices.get(method)?.run({
    action,
    deadlineMs: DEADLINE_MS,
    by: { guard: 'g1-1', fencing: 'f' },
    done: ({ answer, isDone }) => {
      said = action === 'status' ? answer : isDone ? 'ok' : 'error';
      endMs = world.agenda.now();
    },
  });
  world.agenda.runUntil(startMs + DEADLINE_MS);
  return { said, tookMs: endMs - startMs };
}

const isOn = (world: World): boolean | undefined => world.machines.get('w1')?.isOn();

describe('the devices', () => {
  it('switch the machine, and say what is so', () => {
    const world = aWorld([{ name: 'w1' }]);
    expect(ask(world, 'bmc w1', 'status')).toEqual({ said: 'on', tookMs: 1_000 });
    expect(ask(world, 'bmc w1', 'off')).toEqual({ said: 'ok', tookMs: 3_000 });
    expect(isOn(world)).toBe(false);
    expect(ask(world, 'bmc w1', 'status').said).toBe('off');
    expect(ask(world, 'bmc w1', 'on').said).toBe('ok');
    expect(isOn(world)).toBe(true);
    expect(world.facts.filter(({ kind }) => kind === 'power')).toMatchObject([
      { isOn: false, by: { fencing: 'f' } },
      { isOn: true, by: { fencing: 'f' } },
    ]);
  });

  it('do not answer without power, if it is that of the machine', () => {
    const world = aWorld([
      {
        name: 'w1',
        devices: [
          { kind: 'bmc', sharesPower: true },
          { kind: 'pdu', level: 2 },
        ],
      },
    ]);
    world.machines.get('w1')?.switchFeed(false);
    expect(ask(world, 'bmc w1', 'status')).toEqual({ said: 'unknown', tookMs: DEADLINE_MS });
    expect(ask(world, 'pdu w1', 'status').said).toBe('on');
    expect(ask(world, 'pdu w1', 'off').said).toBe('ok');
    expect(ask(world, 'pdu w1', 'status').said).toBe('off');
  });

  it('need all outlets of a machine to switch it off', () => {
    const world = aWorld([{ name: 'w1', devices: [{ kind: 'pdu' }, { kind: 'pdu' }] }]);
    ask(world, 'pdu-1 w1', 'off');
    expect(isOn(world)).toBe(true);
    ask(world, 'pdu-2 w1', 'off');
    expect(isOn(world)).toBe(false);
  });

  it.each([
    ['says', { says: 'off' }, 'status', 'off', true],
    ['fails', { fails: true }, 'off', 'error', true],
    ['hangs', { hangs: true }, 'off', 'error', true],
    ['lies', { lies: true }, 'off', 'ok', true],
    ['is late', { afterMs: 10_000 }, 'off', 'ok', false],
  ] as const)('deviate: one that %s', (_, faults, action, said, stays) => {
    const world = aWorld([{ name: 'w1' }]);
    world.devices.get('bmc w1')?.setFaults({ ...NO_FAULTS, ...faults });
    expect(ask(world, 'bmc w1', action).said).toBe(said);
    expect(isOn(world)).toBe(stays);
  });

  it('that lie stay with it until they work again', () => {
    const world = aWorld([{ name: 'w1' }]);
    const device = world.devices.get('bmc w1');
    device?.setFaults({ ...NO_FAULTS, lies: true });
    ask(world, 'bmc w1', 'off');
    expect(ask(world, 'bmc w1', 'status').said).toBe('off');
    device?.setFaults(NO_FAULTS);
    expect(ask(world, 'bmc w1', 'status').said).toBe('on');
  });
});
