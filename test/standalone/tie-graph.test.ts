import { describe, expect, it } from 'vitest';
import { createTieGraph } from '../../src/standalone/tie-graph.ts';

type Lists = { readonly [name: string]: readonly string[] };
const unit = (id: string, relations: Lists = {}, activeState = 'active', stopsUnneeded = false) =>
  [id, { id, activeState, subState: 'running', stopsUnneeded, relations }] as const;
/** With StopWhenUnneeded=. */
const spare = (id: string, relations: Lists, activeState = 'active') => unit(id, relations, activeState, true);
const graphOf =
  (...units: readonly ReturnType<typeof unit>[]) =>
  (pods: readonly string[]) =>
    createTieGraph(new Map(units), new Map(pods.map((pod) => [`${pod}.service`, pod])));

describe('dependencies between the units of pods', () => {
  it('a stop takes along what requires it, is bound to it or is part of it, however far', () => {
    const graph = graphOf(
      unit('db.service', { RequiredBy: ['mid.service'], ConsistsOf: ['helper.service', 'off.service'] }),
      unit('mid.service', { BoundBy: ['front.service'] }),
      unit('front.service'),
      unit('helper.service'),
      unit('off.service', {}, 'inactive'),
    )(['db', 'mid', 'front']);
    expect(graph.of('db')).toMatchObject({ pods: ['mid', 'front'], units: ['helper.service'] });
    expect(graph.of('mid')).toMatchObject({ pods: ['front'], units: [] });
    expect(graph.of('front')).toBeNull();
    expect(graph.others('db.service')).toEqual(['helper.service']);
  });

  it('units ordered after it are stopped first, also through units that are stopped, too, and through no others', () => {
    const graph = graphOf(
      unit('db.service', {
        Before: ['helper.service', 'away.service', 'shutdown.target'],
        RequiredBy: ['helper.service'],
      }),
      unit('helper.service', { Before: ['front.service'] }),
      unit('away.service', { Before: ['other.service'] }),
      unit('front.service', { Before: ['last.service'] }),
      unit('last.service'),
      unit('other.service'),
    )(['db', 'front', 'last', 'other']);
    expect(graph.of('db')?.after).toEqual(['front']);
    expect(graph.of('front')?.after).toEqual(['last']);
    expect(graph.of('other')).toBeNull();
  });

  it('nothing is taken along twice through a cycle, or a slice and its units', () => {
    const graph = graphOf(
      unit('a.service', { RequiredBy: ['b.service'] }),
      unit('b.service', { RequiredBy: ['a.service'] }),
    )(['a', 'b']);
    expect(graph.of('a')?.pods).toEqual(['b']);
    const slice = createTieGraph(
      new Map([unit('web.slice', { RequiredBy: ['in-it.service'] }), unit('in-it.service')]),
      new Map([['web.slice', 'web']]),
    );
    expect(slice.of('web')).toBeNull();
  });

  it.each(['RequiredBy', 'RequisiteOf', 'WantedBy', 'BoundBy', 'UpheldBy'])(
    'a unit with StopWhenUnneeded= is stopped with the only one that needs it (%s)',
    (list) => {
      const needs = { Wants: ['aid.service', 'basic.target'] };
      const pods = ['front', 'aid', 'other'];
      const of = (aid: ReturnType<typeof unit>, other = 'active') =>
        graphOf(
          unit('front.service', needs),
          aid,
          unit('other.service', {}, other),
          unit('basic.target'),
        )(pods).of('front')?.pods;
      expect(of(spare('aid.service', { [list]: ['front.service'] }))).toEqual(['aid']);
      expect(of(spare('aid.service', { [list]: ['front.service', 'other.service'] }, 'active'))).toBeUndefined();
      expect(of(spare('aid.service', { [list]: ['front.service', 'other.service'] }), 'inactive')).toContain('aid');
      expect(of(spare('aid.service', { [list]: ['front.service', 'unread.service'] }))).toBeUndefined();
      expect(of(spare('aid.service', { [list]: ['front.service'] }, 'inactive'))).toBeUndefined();
      expect(of(unit('aid.service', { [list]: ['front.service'] }))).toBeUndefined();
    },
  );

  it('what is no longer needed takes along what depends on it, and what only that needs, to any depth', () => {
    const graph = graphOf(
      unit('db.service', { RequiredBy: ['front.service'] }),
      unit('front.service', { Wants: ['aid.service'] }),
      spare('aid.service', { WantedBy: ['front.service'], BoundBy: ['tail.service'], Requires: ['deep.service'] }),
      unit('tail.service', { BindsTo: ['aid.service'] }),
      spare('deep.service', { RequiredBy: ['aid.service'] }),
    )(['db', 'front', 'aid', 'deep']);
    // The tail keeps it running.
    expect(graph.of('db')?.pods).toEqual(['front']);
    expect(graph.of('aid')).toMatchObject({ pods: ['deep'], units: ['tail.service'] });
    const without = graphOf(
      unit('db.service', { RequiredBy: ['front.service'] }),
      unit('front.service', { Wants: ['aid.service'] }),
      spare('aid.service', { WantedBy: ['front.service'], ConsistsOf: ['tail.service'], Requires: ['deep.service'] }),
      unit('tail.service'),
      spare('deep.service', { RequiredBy: ['aid.service'] }),
    )(['db', 'front', 'aid', 'deep']);
    expect(without.of('db')).toMatchObject({ pods: ['front', 'aid', 'deep'], units: ['tail.service'] });
  });
});
