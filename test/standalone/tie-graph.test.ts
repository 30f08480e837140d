import { describe, expect, it } from 'vitest';
import { createTieGraph, unitsAround } from '../../src/standalone/ties/tie-graph.ts';

type Lists = { readonly [name: string]: readonly string[] };
const unit = (id: string, relations: Lists = {}, activeState = 'active', stopsUnneeded = false) =>
  [id, { id, loadState: 'loaded', activeState, subState: 'running', stopsUnneeded, relations }] as const;
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

  it('with a slice stops what depends on a unit in it, but its own units are the pod itself, at any depth', () => {
    const ofSlice = (lists: Lists) =>
      createTieGraph(
        new Map([
          unit('web.slice', { RequiredBy: ['web-in.slice', 'one.service', 'asks.service'], ...lists }),
          unit('web-in.slice', { RequiredBy: ['two.service'], ...(lists['SliceOf'] && { SliceOf: ['two.service'] }) }),
          unit('one.service', { ConsistsOf: ['part.service', 'two.service'] }),
          unit('two.service', { BoundBy: ['front.service'] }),
          unit('part.service'),
          unit('asks.service'),
          unit('front.service'),
        ]),
        new Map([
          ['web.slice', 'web'],
          ['front.service', 'front'],
        ]),
      );
    const known = ofSlice({ SliceOf: ['web-in.slice', 'one.service'] });
    expect(known.of('web')).toMatchObject({ pods: ['front'], units: ['asks.service', 'part.service'] });
    expect(known.others('web.slice')).toEqual(['asks.service', 'part.service']);
    // Below systemd 249, which does not list what is in a slice: all of that requires it.
    expect(ofSlice({}).of('web')).toMatchObject({ pods: ['front'], units: ['part.service'] });
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

  it.each(['OnSuccess', 'OnFailure'])(
    'what it starts at its end (%s), with what that needs, stops what these conflict with',
    (list) => {
      const units = (lists: Lists, ...more: readonly ReturnType<typeof unit>[]) =>
        graphOf(
          unit('low.service', lists),
          unit('clean.service', { OnSuccess: ['next.service'], Conflicts: ['shutdown.target'] }, 'inactive'),
          unit('next.service', { Wants: ['tool.service', 'up.target'] }, 'inactive'),
          unit('tool.service', { Conflicts: ['base.service'] }, 'inactive'),
          // It is not started: what it conflicts with is not there.
          unit('up.target', { Conflicts: ['other.service'] }),
          unit('base.service', { RequiredBy: ['high.service'] }),
          unit('high.service'),
          unit('other.service'),
          unit('shutdown.target', { RequiredBy: ['other.service'] }, 'inactive'),
          ...more,
        )(['low', 'high', 'other']);
      const graph = units({ [list]: ['clean.service'] });
      // Only if it ends so: nobody says that its stop stops them.
      expect(graph.of('low')).toMatchObject({ pods: [], displaced: ['high'], units: [] });
      expect(graph.of('high')).toBeNull();
      // The same of what stops along with it, while that runs.
      const helper = (activeState: string) =>
        units({ RequiredBy: ['helper.service'] }, unit('helper.service', { [list]: ['clean.service'] }, activeState));
      expect(helper('active').of('low')).toMatchObject({ displaced: ['high'], units: ['helper.service'] });
      expect(helper('inactive').of('low')).toBeNull();
    },
  );

  it.each(['reboot.target', 'own.service'])(
    'what it starts at its end and takes the machine down (%s) says so, and does not lead to all units of the machine',
    (handler) => {
      const rest = ['one.service', 'two.service'];
      const units = new Map([
        unit('low.service', { OnFailure: [handler] }),
        unit('own.service', { Wants: ['reboot.target'] }, 'inactive'),
        unit('reboot.target', { Requires: ['systemd-reboot.service'] }, 'inactive'),
        unit('systemd-reboot.service', { Requires: ['shutdown.target'] }, 'inactive'),
        unit('shutdown.target', { ConflictedBy: ['low.service', ...rest] }, 'inactive'),
        ...rest.map((name) => unit(name, { Conflicts: ['shutdown.target'] })),
      ]);
      expect([...unitsAround(['low.service'], units).reached]).toEqual(['low.service']);
      const pods = ['low', 'one'].map((name) => [`${name}.service`, name] as const);
      expect(createTieGraph(units, new Map(pods)).of('low')).toMatchObject({
        displaced: [],
        machineAction: { what: 'the start of reboot.target', afterMs: 0 },
      });
    },
  );

  it.each(['Wants', 'Requires'])(
    'a unit that is in conflict with a shutdown does not begin one by what it needs (%s), but by its end',
    (list) => {
      const of = (needs: Lists) =>
        graphOf(
          unit('low.service', { OnFailure: ['own.service'] }),
          unit('own.service', { Conflicts: ['shutdown.target'], ...needs }, 'inactive'),
          unit('shutdown.target', {}, 'inactive'),
          ...['reboot.target', 'rescue.target'].map((name) => unit(name, {}, 'inactive')),
        )(['low']).of('low')?.machineAction;
      expect(of({ [list]: ['reboot.target'] })).toBeUndefined();
      expect(of({ OnSuccess: ['reboot.target'] })).toBeDefined();
      expect(of({ Upholds: ['reboot.target'] })).toBeDefined();
      // The start of a rescue shell needs no shutdown.
      expect(of({ [list]: ['rescue.target'] })).toBeDefined();
    },
  );

  it('what is only required to run already (Requisite=) is not started at its end', () => {
    const of = (list: string) =>
      graphOf(
        unit('low.service', { OnSuccess: ['clean.service'] }),
        unit('clean.service', { [list]: ['mode.service'], Conflicts: ['tool.service'] }, 'inactive'),
        unit('mode.service', { Conflicts: ['db.service'] }, 'inactive'),
        unit('db.service'),
        unit('tool.service'),
      )(['low', 'db', 'tool']).of('low')?.displaced;
    // Although it does not start then.
    expect(of('Requisite')).toEqual(['tool']);
    for (const list of ['Requires', 'BindsTo', 'Wants', 'Upholds']) expect(of(list)).toEqual(['tool', 'db']);
  });

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
