import { describe, expect, it } from 'vitest';
import type { KeptDevice, KeptState } from '../../src/core/guard/record.ts';
import { bytesOf } from '../../src/guard/api-writes.ts';
import { devicesData, readDevices, readState, stateData } from '../../src/guard/kept.ts';

const DEVICES: readonly KeptDevice[] = [
  {
    ...{ node: 'u1', method: 'bmc ip=1', says: 'on', wallMs: 5, hasSaidOn: true, hasReturned: true },
    ...{ contradicted: null, rehearsedWallMs: null },
  },
  {
    ...{
      node: 'u1',
      method: 'pdu plug=2',
      says: 'off',
      wallMs: 6,
      hasSaidOn: false,
      hasReturned: false,
      rehearsedWallMs: 4,
    },
    contradicted: { why: 'off-while-alive', wallMs: 3 },
  },
  {
    node: 'u2',
    method: 'bmc ip=1',
    says: 'unknown',
    wallMs: 7,
    hasSaidOn: false,
    hasReturned: false,
    contradicted: null,
    rehearsedWallMs: null,
  },
];
const STATE: KeptState = {
  paused: { by: 'ann', because: 'a new switch', wallMs: 1 },
  holds: [
    { kind: 'cluster', scope: { kind: 'cluster', group: 'workers' } },
    { kind: 'domain', scope: { kind: 'domain', label: 'zone', value: 'a' } },
    { kind: 'burst', scope: { kind: 'nodes', nodes: ['u1', 'u2'] } },
  ],
  past: [
    { what: 'kubelet-answers', scope: { kind: 'nodes', nodes: ['w1'] }, fromWallMs: 1, untilWallMs: 5 },
    { what: 'burst', scope: { kind: 'nodes', nodes: ['w1', 'w2'] }, fromWallMs: 3, untilWallMs: null },
  ],
};

const manyDevices = (nodes: number, method: string): readonly KeptDevice[] =>
  Array.from({ length: 2 * nodes }, (_, i) => ({
    ...{ node: `${String(i >> 1).padStart(8, '0')}-0000-4000-8000-000000000000`, method: `${method}${i % 2}` },
    ...{
      says: 'on',
      wallMs: 1_764_000_000_000,
      hasSaidOn: true,
      hasReturned: false,
      contradicted: null,
      rehearsedWallMs: 1_764_000_000_000,
    },
  }));

describe('what outlives a leader', () => {
  it('is read back as it was kept', () => {
    expect(readDevices({ data: devicesData(DEVICES).data })).toEqual({ known: true, value: DEVICES });
    expect(readState({ data: stateData(STATE) })).toEqual({ known: true, value: STATE });
  });

  it.each([undefined, '{', '[{}]', '{"what": "x"}', JSON.stringify(Array.from({ length: 201 }, () => STATE.past[0]))])(
    'is read without the holds of the past if somebody has made something else of them: %s',
    (past) => {
      const { state = '' } = stateData(STATE);
      const read = readState({ data: past === undefined ? { state } : { state, past } });
      expect(read).toEqual({ known: true, value: { ...STATE, past: [] } });
    },
  );

  it('is read although a newer version counted a group apart that this one does not know', () => {
    const scope = { kind: 'cluster', group: 'of-a-newer-version' } as const;
    const holds = [...STATE.holds, { kind: 'cluster', scope } as const];
    const past = [...STATE.past, { what: 'cluster', scope, fromWallMs: 1, untilWallMs: null }];
    const state = { ...STATE, holds, past };
    expect(readState({ data: stateData(state) })).toEqual({ known: true, value: state });
  });

  it('is nothing as long as nothing was kept', () => {
    expect(readDevices(null)).toEqual({ known: true, value: [] });
    expect(readState(null)).toEqual({ known: true, value: { paused: null, holds: [], past: [] } });
  });

  it('is read as an earlier version wrote it', () => {
    const rows = {
      u1: {
        'bmc ip=1': { says: 'on', wallMs: 5, hasSaidOn: true },
        'pdu plug=2': {
          ...{ says: 'off', wallMs: 6, rehearsedWallMs: 4 },
          contradicted: { why: 'off-while-alive', wallMs: 3 },
        },
      },
      u2: { 'bmc ip=1': { says: 'unknown', wallMs: 7 } },
    };
    const value = DEVICES.map((device) => ({ ...device, hasReturned: false }));
    expect(readDevices({ data: { devices: JSON.stringify(rows) } })).toEqual({ known: true, value });
  });

  it('fits into a ConfigMap for 5,000 nodes with two rehearsed devices each', () => {
    const { data, leftOut } = devicesData(manyDevices(5_000, 'bmc ip=10.200.100.20'));
    expect(leftOut).toBe(0);
    expect(bytesOf(data)).toBeLessThan(1_000_000);
  });

  it('is what is held against devices, and then the rehearsals, if not all of it fits', () => {
    const devices = manyDevices(9_000, 'bmc ip=the-controller-of-one.machine.example.com').map((device, i) => ({
      ...device,
      rehearsedWallMs: i % 9 === 1 ? 4 : null,
      contradicted: i % 9 === 2 ? ({ why: 'life-after-proof', wallMs: 3 } as const) : null,
    }));
    const { data, leftOut } = devicesData(devices);
    expect(bytesOf(data)).toBeLessThanOrEqual(1_000_000);
    expect(bytesOf(data)).toBeGreaterThan(990_000);
    const read = readDevices({ data });
    const kept = read.known ? read.value : [];
    expect(kept).toHaveLength(devices.length - leftOut);
    expect(kept.filter(({ contradicted }) => contradicted !== null)).toHaveLength(2_000);
    expect(kept.filter(({ rehearsedWallMs }) => rehearsedWallMs !== null)).toHaveLength(2_000);
  });

  it.each([
    [{}],
    [{ data: {} }],
    [{ data: { devices: '[]', state: '[]' } }],
    [{ data: { devices: '{', state: '{' } }],
    [{ data: { devices: '{"u1": {"bmc": {"says": "reboot", "wallMs": 1}}}', state: '{"paused": null}' } }],
    [{ data: { devices: '{"u1": []}', state: '{"paused": {}, "holds": []}' } }],
    [{ data: { devices: '{"u1": {"bmc": {"says": "on"}}}', state: '{"paused": null, "holds": [{"kind": "x"}]}' } }],
    [
      {
        data: {
          devices: '{"u1": {"bmc": {"says": "on", "wallMs": 1, "contradicted": {}}}}',
          state: '{"paused": null, "holds": [{"kind": "all", "scope": {"kind": "toString"}}]}',
        },
      },
    ],
  ])('is unknown if somebody has made something else of it: %j', (map) => {
    expect(readDevices(map)).toMatchObject({ known: false, why: 'malformed', where: 'guard-devices' });
    expect(readState(map)).toMatchObject({ known: false, why: 'malformed', where: 'guard-state' });
  });
});
