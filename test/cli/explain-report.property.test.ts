import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { FsLayout, Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { type ExplainReport, explainReport } from '../../src/serve/explain-report.ts';
import { aConfig, anObservation, aPod, aThreshold } from '../a.ts';

const absent = unknown('absent', 'stats', 'not there');
const SOURCE = { kind: 'live', node: 'n', mode: 'standalone', dryRun: false, atWallMs: 0 } as const;

/** Few values, so that ties are frequent. */
const few = fc.integer({ min: 0, max: 3 });
const podAt = (i: number): fc.Arbitrary<PodView> =>
  fc
    .record({
      namespace: fc.constantFrom('a', 'a-b', 'ä'),
      name: fc.constantFrom('x', 'x-1', '\u{1f600}', '\uffff'),
      priority: fc.integer({ min: -1, max: 1 }),
      request: few,
      memory: fc.option(few),
      processes: fc.option(few),
      disk: fc.option(fc.record({ logs: few, rootfs: few, volumes: few })),
      hasStats: fc.boolean(),
      startedAtWallMs: fc.option(few),
      isProtected: fc.boolean(),
      isStaticCritical: fc.boolean(),
      isDaemonSet: fc.boolean(),
    })
    .map(({ request, memory, processes, disk, hasStats, ...declared }) =>
      aPod({
        ...declared,
        uid: `uid-${i}`,
        requests: { memoryBytes: request, ephemeralStorageBytes: request },
        usage: {
          workingSetBytes: memory === null ? absent : known(memory),
          processes: processes === null ? absent : known(processes),
          disk:
            disk === null
              ? absent
              : known({
                  logsBytes: disk.logs,
                  rootfsBytes: disk.rootfs,
                  volumesBytes: disk.volumes,
                  logsInodes: disk.logs,
                  rootfsInodes: disk.rootfs,
                  volumesInodes: disk.volumes,
                }),
          ...(hasStats ? {} : { containers: absent }),
        },
      }),
    );
const pods = fc
  .integer({ min: 0, max: 8 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => podAt(i))));
const signals: readonly Signal[] = [
  'memory.available',
  'nodefs.available',
  'nodefs.inodesFree',
  'imagefs.available',
  'pid.available',
];
const layouts: readonly FsLayout[] = ['nodefs-only', 'imagefs-separate', 'containerfs-separate'];

/** As a program in another language would: from the text, by what docs/json.md says of `comparators`, and nothing else. */
function derive(text: string): { readonly order: readonly string[]; readonly decidedBy: readonly (string | null)[] } {
  const report: ExplainReport = JSON.parse(text);
  const shown = (pod: ExplainReport['pods'][number], by: string) => pod.values.find((value) => value.by === by)?.value;
  const compare = (by: string, first: string, a: ExplainReport['pods'][number], b: ExplainReport['pods'][number]) => {
    const [x, y] = [shown(a, by), shown(b, by)];
    if (!x?.known || !y?.known) return Number(x?.known === true) - Number(y?.known === true);
    if (x.value === y.value) return 0;
    const isLower = x.value < y.value;
    return isLower === (first === 'lowest') ? -1 : 1;
  };
  // Before the ties, then with them; `younger` only in a group where everybody has a value.
  const isTie = (by: string) => ['younger', 'name', 'uid'].includes(by);
  const sortBy = (list: ExplainReport['pods'], used: ExplainReport['comparators']) =>
    [...list].sort((a, b) => {
      for (const { by, first } of used) {
        const order = compare(by, first, a, b);
        if (order !== 0) return order;
      }
      return 0;
    });
  const rules = report.comparators.filter(({ by }) => !isTie(by));
  const groups: (typeof report.pods)[number][][] = [];
  for (const pod of sortBy(report.pods, rules)) {
    const group = groups.at(-1);
    const first = group?.[0];
    const isEqual = first !== undefined && rules.every((rule) => compare(rule.by, rule.first, first, pod) === 0);
    if (isEqual) group?.push(pod);
    else groups.push([pod]);
  }
  const usedIn = groups.map((group) => {
    const hasAges = group.every((pod) => shown(pod, 'younger')?.known);
    return report.comparators.filter(({ by }) => by !== 'younger' || hasAges);
  });
  const sorted = groups.map((group, i) => sortBy(group, usedIn[i] ?? []));
  const order = sorted.flat();
  return {
    order: order.map(({ uid }) => uid),
    decidedBy: order.map((pod, i) => {
      const next = order[i + 1];
      if (next === undefined) return null;
      const used = usedIn[sorted.findIndex((group) => group.includes(pod))] ?? [];
      return used.find(({ by, first }) => compare(by, first, pod, next) !== 0)?.by ?? null;
    }),
  };
}

describe('explain -o json', () => {
  it('contains what a plain sort needs to re-derive the order', () => {
    fc.assert(
      fc.property(pods, fc.constantFrom(...signals), fc.constantFrom(...layouts), (list, signal, layout) => {
        const observation = anObservation(
          10,
          { [signal]: { available: 1, capacity: 100 } },
          { pods: known(list), fsLayout: known(layout) },
        );
        const state = initialState('b');
        const look = { observation, config: aConfig([aThreshold(signal, 5)]), state, decisions: [], reasons: [] };
        const report = explainReport(look, SOURCE, { signal: null, of: null });
        const derived = derive(JSON.stringify(report));
        expect(derived.order).toEqual(report.pods.map(({ uid }) => uid));
        expect(derived.decidedBy).toEqual(report.pods.map(({ decidedBy }) => decidedBy));
        expect(report.actsOn).toBe(signal);
      }),
      { numRuns: 1_000 },
    );
  });
});
