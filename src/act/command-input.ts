/** What an operator's command gets on standard input: one line of JSON that every parser accepts, even jq 1.6. */
export const inputOf = (value: unknown): string => `${JSON.stringify(value, wellFormed)}\n`;

/**
 * A name or message from outside may contain half of a surrogate pair, which makes some parsers refuse the whole line.
 */
const wellFormed = (_: string, value: unknown): unknown => (typeof value === 'string' ? value.toWellFormed() : value);
