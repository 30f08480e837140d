import type { Syntax } from './bomb.ts';
import type { Chance } from './chance.ts';

/** A good input. `head` names where `body` belongs and is never mutated; it is '' where an input is just a text. */
export type Example = { readonly head: string; readonly body: Buffer };
export const example = (text: string | Buffer, head = ''): Example => ({ head, body: Buffer.from(text) });

/** True: accepted. False: refused, in good order. A throw, also of a `Complaint`, is a defect. */
export type Attempt = (input: Buffer) => boolean | Promise<boolean>;
export type Workplace = {
  /** The repository. */
  readonly root: string;
  /** A directory of this run. */
  readonly scratch: string;
};
/** A reader of outside text. */
export type Target = {
  readonly name: string;
  readonly syntax: Syntax;
  /** A person waits for it, and gave it the file: what is large may take its time and memory, as long as it ends. */
  readonly isOffline?: true;
  /** Bytes, where something before it lets no more through. */
  readonly largest?: number;
  readonly examples: (place: Workplace) => readonly Example[];
  /** In place of mutated examples, half of the time. */
  readonly generate?: (chance: Chance) => string;
  readonly open: (place: Workplace) => Attempt | Promise<Attempt>;
};

/** Examples as one file: for each the lengths of head and body, then both. */
export function packExamples(examples: readonly Example[]): Buffer {
  return Buffer.concat(
    examples.flatMap(({ head, body }) => {
      const lengths = Buffer.alloc(8);
      lengths.writeUInt32LE(Buffer.byteLength(head), 0);
      lengths.writeUInt32LE(body.length, 4);
      return [lengths, Buffer.from(head), body];
    }),
  );
}

export function unpackExamples(packed: Buffer): readonly Example[] {
  const examples: Example[] = [];
  for (let at = 0; at < packed.length; ) {
    const bodyAt = at + 8 + packed.readUInt32LE(at);
    const end = bodyAt + packed.readUInt32LE(at + 4);
    examples.push({ head: packed.toString('utf8', at + 8, bodyAt), body: packed.subarray(bodyAt, end) });
    at = end;
  }
  return examples;
}
