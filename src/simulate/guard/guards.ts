import type { GuardVerdict } from '../../core/guard/decision.ts';
import type { GuardState } from '../../core/guard/state.ts';
import { type GuardName, guardOf, type ProcessName } from './facts.ts';
import { type SeenLook, startGuard } from './process/guard.ts';
import { LEADER_LEASE } from './process/leading.ts';
import { type Clocks, createClient, createClocks, createLifeline, type Lifeline } from './process/lifeline.ts';
import type { GuardEvent, GuardScenario, ScenarioGuard } from './scenario.ts';
import type { World } from './world.ts';

/** Whoever holds the lease, at that moment. */
type Told = (guard: ProcessName, verdict: GuardVerdict, state: GuardState) => void;
/** Every look of every process, leader or not. */
export type Looked = (process: ProcessName, look: SeenLook) => void;
export type Guards = {
  readonly start: () => void;
  readonly apply: (event: GuardEvent) => void;
  readonly stepClock: (guard: GuardName, ms: number) => void;
  /** The identity of the process that holds the guards' lease. */
  readonly holder: () => string;
  /** A record was stored: what waits for this phase happens. */
  readonly phaseStored: (process: ProcessName, phase: string) => void;
};

type Running = {
  readonly guard: ScenarioGuard;
  readonly clocks: Clocks;
  lifeline: Lifeline | null;
  starts: number;
  isCut: boolean;
  /** The boot of its machine that it was started in; '' outside. */
  bootId: string;
  /** It ended with its machine, and starts with it again. */
  isDown: boolean;
};
/** Machines were booted at different times. */
const BOOTED_BEFORE_MS = 86_400_000;

/** The guards of a scenario: they start, die, pause and lose the API server as its events say. */
export function createGuards(scenario: GuardScenario, world: World, told: Told, looked: Looked): Guards {
  const running = new Map<GuardName, Running>();
  let armed: GuardEvent[] = [];
  for (const [index, guard] of scenario.guards.entries()) {
    const clocks = createClocks(world.agenda, BOOTED_BEFORE_MS * (index + 1));
    running.set(guard.name, { guard, clocks, lifeline: null, starts: 0, isCut: false, bootId: '', isDown: false });
  }

  function start(one: Running): void {
    if (one.lifeline?.isAlive() === true) return;
    one.starts += 1;
    one.isDown = false;
    one.bootId = world.machines.get(one.guard.on ?? '')?.bootId() ?? '';
    const { guard, clocks } = one;
    const lifeline = createLifeline(world.agenda);
    one.lifeline = lifeline;
    const { name, on: node } = guard;
    const writer = `${name}-${one.starts}`;
    const isHome = (): boolean => node === null || world.network.reachesApi(node);
    const isConnected = (): boolean => !one.isCut && isHome();
    const { apiTakes: takesMs, slowApiTakes: slowTakesMs } = scenario.world;
    startGuard({
      world,
      config: scenario.config,
      identity: { name, writer, node },
      lifeline,
      clocks,
      client: createClient(world, lifeline, { isConnected, takesMs, slowTakesMs }),
      isWitnessPossible: (target) =>
        !world.network.isCutOff(target) && (node === null || !world.network.isCutOff(node)),
      told: (verdict, state) => told(writer, verdict, state),
      looked: (look) => looked(writer, look),
    });
  }

  function end(one: Running): void {
    one.lifeline?.end();
  }

  function act(one: Running, { act: what, forMs }: GuardEvent): void {
    const { agenda, tell } = world;
    tell({ kind: 'guard', atMs: agenda.now(), guard: one.guard.name, event: what });
    switch (what) {
      case 'kill':
        end(one);
        if (forMs !== null) agenda.after(forMs, () => start(one));
        return;
      case 'restart':
        end(one);
        start(one);
        return;
      case 'pause': {
        const { lifeline } = one;
        lifeline?.pause();
        if (forMs !== null) agenda.after(forMs, () => lifeline?.resume());
        return;
      }
      case 'cut':
      case 'heal':
        one.isCut = what === 'cut';
        if (what === 'heal' || forMs === null) return;
        agenda.after(forMs, () => {
          one.isCut = false;
        });
    }
  }

  const leader = (): GuardName | null => {
    const holder = holderOf(world);
    return holder === '' ? null : guardOf(holder);
  };

  function named(name: GuardName | 'leader'): Running | undefined {
    return running.get(name === 'leader' ? (leader() ?? '') : name);
  }

  /** What runs on a machine shares its fate; a service starts again with it. */
  world.onChange((machine) => {
    for (const one of running.values()) {
      if (one.guard.on !== machine.name) continue;
      if ((!machine.isOn() || machine.bootId() !== one.bootId) && one.lifeline?.isAlive() === true) {
        end(one);
        one.isDown = true;
      }
      if (!machine.isRunning()) one.lifeline?.pause();
      else if (machine.hasKubelet()) {
        one.lifeline?.resume();
        if (one.isDown) start(one);
      }
    }
  });

  return {
    start: () => {
      for (const one of running.values()) start(one);
    },
    apply: (event) => {
      if (event.atPhase !== null) armed.push(event);
      else {
        const one = named(event.guard);
        if (one !== undefined) act(one, event);
      }
    },
    stepClock: (guard, ms) => running.get(guard)?.clocks.step(ms),
    holder: () => holderOf(world),
    phaseStored: (process, phase) => {
      const guard = guardOf(process);
      const due = armed.filter(
        (event) => event.atPhase === phase && (event.guard === guard || event.guard === 'leader'),
      );
      armed = armed.filter((event) => !due.includes(event));
      const one = running.get(guard);
      for (const event of due) if (one !== undefined) world.agenda.after(event.afterMs, () => act(one, event));
    },
  };
}

function holderOf({ store }: World): string {
  const lease = store.read(LEADER_LEASE)?.value as { readonly holder: string } | undefined;
  return lease?.holder ?? '';
}
