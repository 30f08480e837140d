import type { MethodKey } from '../../core/guard/config.ts';
import type { Agenda } from './agenda.ts';
import type { Action, Actor, Answer } from './facts.ts';
import type { Machine } from './machine.ts';

/** How a device deviates from its duty. All absent: it does what it is told, and says what is so. */
export type Faults = {
  /** What it answers to every status. */
  readonly says: Answer | null;
  /** A command takes effect so much later than it was answered. */
  readonly afterMs: number;
  /** Every run ends with an error, without effect. */
  readonly fails: boolean;
  /** No run ends before its deadline. */
  readonly hangs: boolean;
  /** It answers `off` and `on` as done and stays so in its status, but switches nothing. */
  readonly lies: boolean;
};
export const NO_FAULTS: Faults = { says: null, afterMs: 0, fails: false, hangs: false, lies: false };

type DeviceKind = 'bmc' | 'pdu' | 'fabric';
export type Device = {
  readonly key: MethodKey;
  readonly kind: DeviceKind;
  /** From 1; a fabric device has none. */
  readonly level: number;
  readonly setFaults: (faults: Faults) => void;
  /** One run of its fence agent. `done` comes at its end, at the latest at the deadline. */
  readonly run: (run: Run) => void;
};
type Run = {
  readonly action: Action;
  readonly deadlineMs: number;
  readonly by: Actor | null;
  readonly done: (result: RunResult) => void;
};
/** `isDone`: an off or on ended with exit status 0. `isLie`: the answer differs from what was so. */
export type RunResult = {
  readonly answer: Answer;
  readonly isDone: boolean;
  readonly isLie: boolean;
  readonly detail: string;
};

type Wiring = {
  readonly machine: Machine;
  readonly agenda: Agenda;
  /** The outlet of a PDU. */
  readonly outlet: number;
  readonly sharesPower: boolean;
};
export type DeviceTimes = { readonly statusMs: number; readonly commandMs: number };

export function createDevice(
  { key, kind, level }: Pick<Device, 'key' | 'kind' | 'level'>,
  { machine, agenda, outlet, sharesPower }: Wiring,
  { statusMs, commandMs }: DeviceTimes,
): Device {
  let faults = NO_FAULTS;
  /** What a lying device pretends. */
  let pretended: 'on' | 'off' | null = null;
  let isFabricOn = true;

  const isAlive = (): boolean => kind !== 'bmc' || !sharesPower || machine.isFed();

  function truth(): 'on' | 'off' {
    if (kind === 'fabric') return isFabricOn ? 'on' : 'off';
    const isOn = kind === 'bmc' ? machine.isOn() : machine.isOutletOn(outlet);
    return isOn ? 'on' : 'off';
  }

  function switchTo(isOn: boolean, by: Actor | null): void {
    if (kind === 'fabric') isFabricOn = isOn;
    else if (kind === 'bmc') machine.switchChassis(isOn, by);
    else machine.switchOutlet(outlet, isOn, by);
  }

  function statusOf(): RunResult {
    const answer = faults.says ?? pretended ?? truth();
    const isLie = answer !== 'unknown' && kind !== 'fabric' && answer === 'off' && machine.isOn();
    return { answer, isDone: true, isLie, detail: `says ${answer}` };
  }

  function obey(action: 'off' | 'on', by: Actor | null): RunResult {
    if (faults.lies) pretended = action;
    else if (faults.afterMs > 0) agenda.after(faults.afterMs, () => switchTo(action === 'on', by));
    else switchTo(action === 'on', by);
    return { answer: 'unknown', isDone: true, isLie: faults.lies, detail: `${action} done, it says` };
  }

  return {
    key,
    kind,
    level,
    setFaults: (next) => {
      faults = next;
      if (!next.lies) pretended = null;
    },
    run: ({ action, deadlineMs, by, done }) => {
      const takesMs = action === 'status' ? statusMs : commandMs;
      if (faults.hangs || !isAlive()) {
        const detail = faults.hangs ? 'no answer' : 'no answer: it has no power';
        agenda.after(deadlineMs, () => done({ answer: 'unknown', isDone: false, isLie: false, detail }));
        return;
      }
      agenda.after(Math.min(takesMs, deadlineMs), () => {
        if (faults.fails || takesMs > deadlineMs || !isAlive()) {
          done({ answer: 'unknown', isDone: false, isLie: false, detail: 'exit status 1' });
        } else done(action === 'status' ? statusOf() : obey(action, by));
      });
    },
  };
}
