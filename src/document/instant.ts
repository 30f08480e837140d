const RFC_3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|([+-])(\d\d):(\d\d))$/;

/**
 * An RFC 3339 time in milliseconds since the epoch, as parsed by Go: capital T and Z, no leap second. null = invalid.
 */
export function parseInstant(text: string): number | null {
  const [, date = '', fraction = '', zone, sign, hours, minutes] = RFC_3339.exec(text) ?? [];
  const ms = Date.parse(`${date}Z`);
  // Date turns the 30th of February into the 2nd of March, and 24:00 into the next day.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, date.length) !== date) return null;
  const offsetMinutes = zone === 'Z' ? 0 : (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -1 : 1);
  if (Number(hours ?? 0) > 23 || Number(minutes ?? 0) > 59) return null;
  return ms + Number(`0${fraction}`) * 1000 - offsetMinutes * 60_000;
}
