/** What a command of the operator gets on standard input: one line of JSON that every parser takes, also jq 1.6. */
export const inputOf = (value: unknown): string => `${JSON.stringify(value, wellFormed)}\n`;

/** Half of a surrogate pair, which a name or a message from outside may have, is no text: some parsers refuse it all. */
const wellFormed = (_: string, value: unknown): unknown => (typeof value === 'string' ? value.toWellFormed() : value);
