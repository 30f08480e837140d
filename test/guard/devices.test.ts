import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { StatusAsk } from '../../src/core/guard/decision.ts';
import type { AgentRun } from '../../src/core/guard/observation.ts';
import { createDevices, type Sent } from '../../src/guard/devices.ts';
import { clock, until } from '../host/test-cgroup.ts';
import { aBench } from './an-agent.ts';

const node = { name: 'w1', uid: 'uid-w1', bootId: 'boot' };
const ask = (method: string, purpose: StatusAsk['for'] = 'dead'): StatusAsk => ({ node, method, for: purpose });

/** Methods are named after the plug that their agent gets. */
const always = (): null => null;
function someDevices(script: string) {
  const bench = aBench({ fence_a: script });
  let arrivals = 0;
  const devices = createDevices({
    clock,
    agents: bench.agents,
    methodOf: (_, key) => (key === 'none' ? null : bench.method('fence_a', { key, parameters: { plug: key } })),
    arrived: () => {
      arrivals += 1;
    },
  });
  return { bench, devices, arrived: (count: number) => until(() => arrivals >= count) };
}

function runsOf(sent: Sent): readonly AgentRun[] {
  if (sent.kind !== 'ran') throw new Error(sent.detail);
  return sent.runs;
}

describe('the devices', () => {
  it('give each answer once, with the time in which it was true', async () => {
    const { devices, arrived } = someDevices(
      '[ "$(value plug)" = 1 ] && echo ON; [ "$(value plug)" = 2 ] && echo OFF && exit 2; exit 1',
    );
    const beforeMs = clock.monoMs();
    devices.ask([ask('1'), ask('2'), ask('3'), ask('none')]);
    await arrived(4);
    const answers = devices.answers();
    expect(devices.answers()).toEqual([]);
    expect(answers.map(({ node: uid, method, says, detail }) => [uid, method, says, detail]).sort()).toEqual([
      ['uid-w1', '1', 'unknown', 'its exit status 1 does not fit what it printed, ON'],
      ['uid-w1', '2', 'off', ''],
      ['uid-w1', '3', 'unknown', 'exit status 1'],
      ['uid-w1', 'none', 'unknown', 'the configuration has no such method for this node'],
    ]);
    for (const { begunMs, endedMs } of answers) {
      expect(begunMs).toBeGreaterThanOrEqual(beforeMs);
      expect(endedMs).toBeGreaterThanOrEqual(begunMs);
      expect(endedMs).toBeLessThanOrEqual(clock.monoMs());
    }
  });

  it('are asked once at a time, however often the core wants it', async () => {
    const { bench, devices, arrived } = someDevices('echo >> asked; while [ ! -e go ]; do sleep 0.02; done; echo ON');
    devices.ask([ask('1', 'patrol')]);
    await bench.appears('asked');
    devices.ask([ask('1'), ask('1', 'fencing')]);
    writeFileSync(join(bench.directory, 'go'), '');
    await arrived(1);
    expect(bench.read('asked')).toBe('\n');
    devices.ask([ask('1', 'fencing')]);
    await arrived(2);
    expect(bench.read('asked')).toBe('\n\n');
    expect(devices.answers().map(({ says }) => says)).toEqual(['on', 'on']);
  });

  it('get off all at once, and on step after step', async () => {
    const both =
      'plug=$(value plug); echo "$action" > "$plug-$action"; [ "$plug" = 3 ] || while [ ! -e 1-$action ] || [ ! -e 2-$action ]; do sleep 0.02; done; [ "$plug" != 2 ]';
    const { bench, devices } = someDevices(both);
    const runs = runsOf(await devices.off(node, ['1', '2'], always));
    expect(runs.map(({ method, isOk, detail }) => [method, isOk, detail])).toEqual([
      ['1', true, ''],
      ['2', false, 'exit status 1'],
    ]);
    expect(existsSync(join(bench.directory, '3-off'))).toBe(false);
    const on = runsOf(await devices.on(node, [['1', '2'], ['3']], always));
    expect(on.map(({ method, isOk }) => [method, isOk])).toEqual([
      ['1', true],
      ['2', false],
      ['3', true],
    ]);
    expect(on[2]?.begunMs).toBeGreaterThanOrEqual(on[1]?.endedMs ?? Number.POSITIVE_INFINITY);
    expect(devices.answers()).toEqual([]);
  });

  it('get no command without authority', async () => {
    const { bench, devices } = someDevices('echo > ran');
    expect(await devices.off(node, ['1', '2'], () => 'authority has ended')).toEqual({
      kind: 'not-begun',
      detail: 'it was not begun: authority has ended',
    });
    expect(existsSync(join(bench.directory, 'ran'))).toBe(false);
  });
});
