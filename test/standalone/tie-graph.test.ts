import { describe, expect, it } from 'vitest';
import { createTieGraph } from '../../src/standalone/tie-graph.ts';

type Lists = { readonly [name: string]: readonly string[] };
const unit = (id: string, relations: Lists = {}, activeState = 'active') =>
  [id, { id, activeState, subState: 'running', relations }] as const;
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
});
