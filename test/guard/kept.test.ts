import { describe, expect, it } from 'vitest';
import type { KeptDevice, KeptState } from '../../src/core/guard/record.ts';
import { devicesData, readDevices, readState, stateData } from '../../src/guard/kept.ts';

const DEVICES: readonly KeptDevice[] = [
  { node: 'u1', method: 'bmc ip=1', says: 'on', wallMs: 5, hasSaidOn: true, contradicted: null, rehearsedWallMs: null },
  {
    ...{ node: 'u1', method: 'pdu plug=2', says: 'off', wallMs: 6, hasSaidOn: false, rehearsedWallMs: 4 },
    contradicted: { why: 'off-while-alive', wallMs: 3 },
  },
  {
    node: 'u2',
    method: 'bmc ip=1',
    says: 'unknown',
    wallMs: 7,
    hasSaidOn: false,
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

describe('what outlives a leader', () => {
  it('is read back as it was kept', () => {
    expect(readDevices({ data: devicesData(DEVICES) })).toEqual({ known: true, value: DEVICES });
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

  it('fits into a ConfigMap for 5,000 nodes with two devices each', () => {
    const many = Array.from({ length: 10_000 }, (_, i): KeptDevice => {
      const uid = `${String(i >> 1).padStart(8, '0')}-0000-4000-8000-000000000000`;
      const method = `bmc ip=10.200.100.${i}`;
      const says = { says: 'on', wallMs: 1_764_000_000_000 } as const;
      return { ...{ node: uid, method, ...says, hasSaidOn: true }, contradicted: null, rehearsedWallMs: null };
    });
    expect(Buffer.byteLength(String(devicesData(many)['devices']))).toBeLessThan(1_000_000);
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
