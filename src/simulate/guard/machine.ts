import type { Agenda } from './agenda.ts';
import type { Actor, Fact, NodeName } from './facts.ts';

/** One machine: what feeds it, whether its processors run, and what runs on it. */
export type Machine = {
  readonly name: NodeName;
  readonly isOn: () => boolean;
  /** Its processors run: it is on, booted far enough to run anything, and not frozen. */
  readonly isRunning: () => boolean;
  readonly bootId: () => string;
  /** The kubelet runs and can act. */
  readonly hasKubelet: () => boolean;
  /** How often its kubelet was started. */
  readonly kubeletStarts: () => number;
  /** Its power supply has current: the feed is there, and an outlet that it hangs on is on. */
  readonly isFed: () => boolean;
  readonly isOutletOn: (outlet: number) => boolean;
  readonly switchOutlet: (outlet: number, isOn: boolean, by: Actor | null) => void;
  /** What its power button or its BMC does. */
  readonly switchChassis: (isOn: boolean, by: Actor | null) => void;
  readonly switchFeed: (isOn: boolean) => void;
  readonly freeze: (isFrozen: boolean) => void;
  readonly runKubelet: (isRunning: boolean) => void;
  /** Off and on in one go, by itself: processes end, another boot begins. */
  readonly reboot: () => void;
  /** Containers by the uid of their pod. */
  readonly processes: ReadonlyMap<string, string>;
  readonly start: (uid: string, pod: string) => void;
  readonly stop: (uid: string) => void;
};

type Surroundings = {
  readonly agenda: Agenda;
  readonly tell: (fact: Fact) => void;
  readonly bootMs: number;
  /** Its kubelet can do more, or less, than before. */
  readonly changed: (machine: Machine) => void;
};

export function createMachine(
  name: NodeName,
  outletCount: number,
  { agenda, tell, bootMs, changed }: Surroundings,
): Machine {
  const outlets = Array.from({ length: outletCount }, () => true);
  const processes = new Map<string, string>();
  let isFeedOn = true;
  let isChassisOn = true;
  let isFrozen = false;
  let isKubeletWanted = true;
  let isBooted = true;
  let boots = 1;
  let kubeletStarts = 1;
  let wasOn = true;

  const isFed = (): boolean => isFeedOn && (outlets.length === 0 || outlets.includes(true));
  const isOn = (): boolean => isFed() && isChassisOn;

  function endProcesses(): void {
    for (const uid of [...processes.keys()]) machine.stop(uid);
  }

  function setFrozen(isNowFrozen: boolean): void {
    if (isNowFrozen === isFrozen) return;
    isFrozen = isNowFrozen;
    tell({ kind: 'frozen', atMs: agenda.now(), node: name, isFrozen });
  }

  function boot(): void {
    boots += 1;
    isBooted = false;
    setFrozen(false);
    const thisBoot = boots;
    agenda.after(bootMs, () => {
      if (boots !== thisBoot || !isOn()) return;
      isBooted = true;
      isKubeletWanted = true;
      kubeletStarts += 1;
      tell({ kind: 'booted', atMs: agenda.now(), node: name, bootId: machine.bootId() });
      changed(machine);
    });
  }

  function settle(by: Actor | null): void {
    if (isOn() === wasOn) return;
    wasOn = isOn();
    tell({ kind: 'power', atMs: agenda.now(), node: name, isOn: wasOn, by });
    endProcesses();
    if (wasOn) boot();
    else isBooted = false;
    changed(machine);
  }

  const machine: Machine = {
    name,
    isOn,
    isRunning: () => isOn() && !isFrozen,
    bootId: () => `${name}-boot-${boots}`,
    hasKubelet: () => isOn() && isBooted && !isFrozen && isKubeletWanted,
    kubeletStarts: () => kubeletStarts,
    isFed,
    isOutletOn: (outlet) => outlets[outlet] ?? false,
    switchOutlet: (outlet, isNowOn, by) => {
      outlets[outlet] = isNowOn;
      settle(by);
    },
    switchChassis: (isNowOn, by) => {
      isChassisOn = isNowOn;
      settle(by);
    },
    switchFeed: (isNowOn) => {
      isFeedOn = isNowOn;
      settle(null);
    },
    freeze: (isNowFrozen) => {
      setFrozen(isNowFrozen && isOn());
      changed(machine);
    },
    runKubelet: (isNowRunning) => {
      if (isNowRunning && !isKubeletWanted) kubeletStarts += 1;
      isKubeletWanted = isNowRunning;
      changed(machine);
    },
    reboot: () => {
      if (!isOn()) return;
      endProcesses();
      boot();
      changed(machine);
    },
    processes,
    start: (uid, pod) => {
      if (processes.has(uid)) return;
      processes.set(uid, pod);
      tell({ kind: 'pod-started', atMs: agenda.now(), node: name, pod, uid });
    },
    stop: (uid) => {
      const pod = processes.get(uid);
      if (pod === undefined) return;
      processes.delete(uid);
      tell({ kind: 'pod-stopped', atMs: agenda.now(), node: name, pod, uid });
    },
  };
  return machine;
}
