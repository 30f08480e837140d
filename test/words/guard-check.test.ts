import { expect, it } from 'vitest';
import { deviceFindings } from '../../src/words/guard-check.ts';

type Device = Parameters<typeof deviceFindings>[0][number];
const aDevice = (rest: Partial<Device>): Device => ({
  ...{ node: 'w1', level: 1, method: 'bmc w1', agent: 'fence_redfish', says: 'on', detail: '', tookMs: 900 },
  ...{ exposedTo: [], isNodeReady: true, contradicted: null, ...rest },
});
const codes = (rest: Partial<Device>) => deviceFindings([aDevice(rest)]).map(({ kind, code }) => `${kind} ${code}`);

it('a device that answers too late for a proof is found, unless it is of the fabric', () => {
  expect(codes({ tookMs: 14_000 })).toEqual([]);
  expect(codes({ tookMs: 14_001 })).toEqual(['blocking slow-device']);
  expect(codes({ tookMs: 14_001, level: null })).toEqual([]);
  expect(codes({ tookMs: 14_001, says: 'off' })).toEqual(['blocking wrong-device']);
  expect(codes({ tookMs: 40_000, says: 'unknown' })).toEqual(['blocking device']);
  expect(deviceFindings([aDevice({ tookMs: 16_300 })])[0]?.text).toBe(
    'w1: bmc w1 took 16.3s to say whether the machine is on; a proof needs its answer within 14s, so nothing is switched off by its level',
  );
});
