import { sayInstant, sayNames } from './phrases.ts';

/** What a capture of the last hour is, and what is not known or not in it. Names as they stand in the scenario. */
export type HourNotes = {
  readonly fromWallMs: number;
  readonly toWallMs: number;
  /** Which time of the scenario that is. */
  readonly fromMs: number;
  /** Why it begins later than was asked for; null: it does not. */
  readonly begins: 'started' | 'an-hour' | 'full' | null;
  readonly isLeader: boolean;
  /** The same guard led, or did not, all the time. */
  readonly ledAlone: boolean;
  readonly isReloaded: boolean;
  readonly joined: readonly string[];
  readonly recreated: readonly string[];
  readonly silentBefore: readonly string[];
  readonly contradicted: readonly string[];
  readonly podsUnknown: readonly string[];
};

const BEGINS = {
  started: 'It begins when this guard started, or first listed the nodes: what was before is not known.',
  'an-hour': 'No more than the last hour is kept.',
  full: 'So much happened that it was not all kept: it begins later.',
};

export function sayHourNotes(notes: HourNotes): readonly string[] {
  const { fromWallMs, toWallMs, fromMs, begins, isLeader, ledAlone, isReloaded } = notes;
  const whole = `What a guard saw from ${sayInstant(fromWallMs)} to ${sayInstant(toWallMs)}, as a world in which it comes about again.`;
  const start = `That time begins at ${Math.round(fromMs / 1_000)}s; before, every node is alive. Times may differ by the 10 s between two renewals of a lease.`;
  const of = (names: readonly string[], text: string): readonly string[] =>
    names.length === 0 ? [] : [`${sayNames(names)}: ${text}`];
  return [
    whole,
    start,
    ...(begins === null ? [] : [BEGINS[begins]]),
    ...(isLeader && ledAlone
      ? []
      : [
          'Another guard led for some of that time, or all of it: of then, who was silent is known, but neither why, nor with which pods, nor what was done.',
        ]),
    ...(isReloaded ? ['The configuration was changed in that time: the decisions were made with both.'] : []),
    ...of(notes.silentBefore, 'silent before it begins. When exactly, and what was done about it, is left out.'),
    ...of(notes.contradicted, 'a device was not believed any more before it begins; here it is believed.'),
    ...of(notes.joined, 'joined in that time; here from the beginning.'),
    ...of(notes.recreated, 'deleted and created anew in that time; here only the new one.'),
    ...of(notes.podsUnknown, 'its pods are not in it: there were too many.'),
  ];
}
