import { afterEach, beforeEach } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import type { UnitTies } from '../../src/host/systemd/unit-facts.ts';
import type { BoundPod } from '../../src/ports.ts';
import { createTies, type Ties } from '../../src/standalone/ties/ties.ts';
import { aPod } from '../a.ts';
import { type FakeSystemd, type FakeUnit, openFakeSystemd } from '../host/fake-systemd.ts';

export const clock = createClock();
/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let fake: FakeSystemd;
export let ties: Ties;
/** Other ones in place of these, which are closed by then. */
export const tie = (needs: Parameters<typeof createTies>[0]): void => {
  ties = createTies(needs);
};
beforeEach(async () => {
  fake = await openFakeSystemd();
  tie({
    clock,
    systemd: fake.systemd,
    unitOf: (uid) => (uid === 'bare' ? null : `${uid}.service`),
    wake: () => undefined,
  });
});
afterEach(async () => {
  ties.close();
  await fake.remove();
});

export const addUnit = (
  name: string,
  relations: UnitTies['relations'] = {},
  activeState = 'active',
  stopsUnneeded = false,
): void => {
  fake.units.set(`${name}.service`, {
    activeState,
    stopsUnneeded,
    invocation: 1,
    controlGroup: `/${name}`,
    loadState: 'loaded',
    relations,
  });
};
/** What systemd says of the unit from the next question on. */
export const changeUnit = (name: string, facts: Partial<FakeUnit>): void => {
  Object.assign(fake.units.get(`${name}.service`) ?? {}, facts);
};
export const bound = (name: string, priority: number, isRunning = true, isProtected = false): BoundPod => {
  const { usage: _, ...declared } = aPod({ name, uid: name, priority, isProtected });
  const cgroup = isRunning ? known({ path: `/${name}`, inode: 7 }) : unknown('absent', name, 'it is not running');
  return { declared, cgroup, containers: [], disk: async () => unknown('not-asked', '', '') };
};
export const of = (name: string, pods: readonly BoundPod[]) =>
  ties.tied(pods).find(({ declared }) => declared.uid === name)?.declared;
