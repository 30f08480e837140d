// What a scene has at hand, and what it says.
import { ask } from '../kube/api.ts';
import { clock, until } from '../scene.ts';
import { aFleet, type Fleet } from './fleet.ts';
import { aGuard, cleanNamespace, type Guard, type GuardSpec } from './guard.ts';
import { emulate, isEmulated } from './out-of-service.ts';
import { cleanVolumes } from './volumes.ts';

export type Lab = {
  readonly fleet: typeof aFleet;
  readonly guard: (spec: GuardSpec) => Promise<Guard>;
  /** Guards that run, one of which leads and may decide; in the order of their names. */
  readonly led: (...specs: readonly GuardSpec[]) => Promise<readonly Guard[]>;
  /** Says whether it holds; a scene goes on either way. */
  readonly check: (what: string, holds: boolean, detail?: string) => void;
  readonly figure: (what: string, value: string | number) => void;
  /** What this machine cannot show, by name. */
  readonly skip: (what: string, why: string) => void;
};
/** `point`: of the list of what must be shown; 0: beside it. */
export type LabScene = { readonly name: string; readonly point: number; readonly body: (lab: Lab) => Promise<void> };
export type Played = {
  readonly failed: readonly string[];
  readonly checks: number;
  readonly figures: readonly string[];
  readonly skipped: readonly string[];
};

/** What the guards of the lab need after their election, and some time for a busy machine. */
const SETTLE_MS = 40_000;
export const leads = (guard: Guard): boolean => {
  if (guard.pid() === null) throw new Error(`${guard.name} has ended`);
  return guard.log().some(({ event }) => event === 'leader');
};

export async function play(scene: LabScene, say: (line: string) => void): Promise<Played> {
  const failed: string[] = [];
  const figures: string[] = [];
  const skipped: string[] = [];
  const ends: (() => Promise<void>)[] = [];
  const guards: Guard[] = [];
  let fleet: Fleet | null = null;
  let checks = 0;
  const check: Lab['check'] = (what, holds, detail = '') => {
    checks += 1;
    say(`${holds ? 'ok  ' : 'FAIL'} ${scene.name}: ${what}${holds || detail === '' ? '' : `: ${detail}`}`);
    if (!holds) failed.push(`${scene.name}: ${what}`);
  };
  const lab: Lab = {
    check,
    fleet: async (...given) => {
      const made = await aFleet(...given);
      fleet = made;
      ends.push(made.close);
      if (!isEmulated()) return made;
      const gc = emulate(() => made.machines.map(({ name }) => made.node(name)));
      ends.push(async () => gc.close());
      return made;
    },
    guard: async (spec) => {
      const guard = await aGuard(spec);
      guards.push(guard);
      ends.push(guard.close);
      return guard;
    },
    led: async (...specs) => {
      const started = await Promise.all(specs.map((spec) => lab.guard(spec)));
      for (const guard of started) guard.start();
      await until('a guard leads', () => started.some(leads) || null);
      await new Promise((resolve) => clock.after(SETTLE_MS, () => resolve(null)));
      return started;
    },
    figure: (what, value) => figures.push(`${scene.name}: ${what} ${value}`),
    skip: (what, why) => skipped.push(`${what} (${why})`),
  };
  await cleanCluster();
  try {
    await scene.body(lab);
  } catch (error) {
    check('it was played to its end', false, error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  // Read before it is closed: it goes on watching until then.
  const wrong = (fleet as Fleet | null)?.wrong ?? [];
  if (fleet !== null)
    check('no taint on a machine that runs, and no member twice', wrong.length === 0, wrong.join('; '));
  if (failed.length > 0) {
    for (const guard of guards) say(`--- log of ${guard.name}\n${guard.logText().split('\n').slice(-80).join('\n')}`);
  }
  for (const end of ends.reverse()) await end().catch((error: unknown) => say(`not ended: ${error}`));
  return { failed, checks, figures, skipped };
}

/** Nothing of an earlier scene, of a run that was interrupted as well. */
async function cleanCluster(): Promise<void> {
  const sets = '/apis/apps/v1/namespaces/default/statefulsets';
  await cleanNamespace();
  for (const { metadata } of (await ask(sets))['items']) await ask(`${sets}/${metadata.name}`, { method: 'DELETE' });
  for (const { metadata } of (await ask('/api/v1/nodes'))['items'])
    await ask(`/api/v1/nodes/${metadata.name}`, { method: 'DELETE' });
  await cleanVolumes();
  const pods = '/api/v1/namespaces/default/pods';
  for (const { metadata } of (await ask(pods))['items']) {
    await ask(`${pods}/${metadata.name}`, { method: 'DELETE', body: { gracePeriodSeconds: 0 } }).catch(() => undefined);
  }
}
