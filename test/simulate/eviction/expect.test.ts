import { describe, expect, it } from 'vitest';
import { compareLook } from '../../../src/simulate/eviction/expect.ts';
import type { EvictionResult } from '../../../src/simulate/eviction/result.ts';
import type { Json } from '../../../src/simulate/scenario.ts';

const RESULT: EvictionResult = {
  thresholdsObserved: ['memory.available/hard', 'pid.available/soft'],
  thresholdsMet: ['memory.available/hard'],
  conditions: ['MemoryPressure', 'PIDPressure'],
  reclaiming: { signal: 'memory.available', soft: false, resource: 'memory' },
  nodeReclaim: ['containers', 'images'],
  ranking: ['a/1', 'a/2', 'a/3', 'a/4'],
  evicted: [
    {
      pod: 'a/1',
      signal: 'memory.available',
      gracePeriodSeconds: 1,
      reason: 'Evicted',
      disruptionTarget: true,
      killFailed: true,
      message: 'short ',
      annotations: { starved_resource: 'memory', offending_containers: 'web' },
    },
  ],
};
const a1 = { pod: 'a/1', killFailed: true };
const said = (wanted: Json) =>
  compareLook(wanted, RESULT).map(({ path, expected, actual }) => `${path}: ${JSON.stringify([expected, actual])}`);

describe('what was expected of a look', () => {
  it.each<[string, Json]>([
    ['nothing', {}],
    ['the result itself', RESULT],
    ['sets in any order', { conditions: ['PIDPressure', 'MemoryPressure'], thresholdsMet: ['memory.available/hard'] }],
    ['a part of what is reclaimed', { reclaiming: { resource: 'memory' } }],
    ['any of several signals', { reclaiming: { signal: ['allocatableMemory.available', 'memory.available'] } }],
    ['groups of equals', { ranking: [['a/2', 'a/1'], 'a/3', ['a/4']] }],
    [
      'annotations in any order',
      { evicted: [{ ...a1, annotations: { offending_containers: 'web', starved_resource: 'memory' } }] },
    ],
    ['some keys of who is evicted', { evicted: [{ ...a1, signal: ['pid.available', 'memory.available'] }] }],
    [
      'one alternative that holds',
      { conditions: ['PIDPressure', 'MemoryPressure'], oneOf: [{ evicted: [] }, { evicted: [a1] }] },
    ],
  ])('holds for %s', (_, wanted) => {
    expect(compareLook(wanted, RESULT)).toEqual([]);
  });

  it.each<[Json, readonly string[]]>([
    [{ thresholdsMet: [] }, ['expect.thresholdsMet: [[],["memory.available/hard"]]']],
    [
      { conditions: ['PIDPressure', 'DiskPressure'] },
      ['expect.conditions: [["DiskPressure","PIDPressure"],["MemoryPressure","PIDPressure"]]'],
    ],
    [{ reclaiming: null }, [`expect.reclaiming: [null,${JSON.stringify(RESULT.reclaiming)}]`]],
    [
      { reclaiming: { signal: 'pid.available', soft: true, resource: 'memory' } },
      ['expect.reclaiming.signal: ["pid.available","memory.available"]', 'expect.reclaiming.soft: [true,false]'],
    ],
    [
      { nodeReclaim: ['images', 'containers'] },
      ['expect.nodeReclaim: [["images","containers"],["containers","images"]]'],
    ],
    [{ ranking: [] }, ['expect.ranking: [[],["a/1","a/2","a/3","a/4"]]']],
    [
      { ranking: ['a/1', ['a/3', 'a/4'], 'a/2'] },
      ['expect.ranking: [["a/1",["a/3","a/4"],"a/2"],["a/1","a/2","a/3","a/4"]]'],
    ],
    [{ ranking: ['a/1', 'a/2', 'a/3'] }, ['expect.ranking: [["a/1","a/2","a/3"],["a/1","a/2","a/3","a/4"]]']],
    [{ evicted: [] }, ['expect.evicted: [[],["a/1"]]']],
    [{ evicted: [a1, { pod: 'a/2' }] }, ['expect.evicted: [["a/1","a/2"],["a/1"]]']],
    [{ evicted: [{ pod: 'a/1' }] }, ['expect.evicted[0].killFailed: [false,true]']],
    [
      { evicted: [{ ...a1, gracePeriodSeconds: 30, message: 'short', signal: ['pid.available'] }] },
      [
        'expect.evicted[0].gracePeriodSeconds: [30,1]',
        'expect.evicted[0].message: ["short","short "]',
        'expect.evicted[0].signal: [["pid.available"],"memory.available"]',
      ],
    ],
    [
      { evicted: [{ ...a1, annotations: {} }] },
      ['expect.evicted[0].annotations: [{},{"starved_resource":"memory","offending_containers":"web"}]'],
    ],
  ])('does not hold for %j', (wanted, mismatches) => {
    expect(said(wanted)).toEqual(mismatches);
  });

  it('reports the closest alternative, besides what all have in common', () => {
    expect(
      said({
        nodeReclaim: [],
        oneOf: [
          { reclaiming: null, evicted: [], ranking: [] },
          { evicted: [{ ...a1, gracePeriodSeconds: 2 }], ranking: ['a/1', 'a/2', 'a/3', 'a/4'] },
        ],
      }),
    ).toEqual([
      'expect.nodeReclaim: [[],["containers","images"]]',
      'expect.oneOf[1].evicted[0].gracePeriodSeconds: [2,1]',
    ]);
  });
});
