/** Checks of what is read back from our own files. A field that is new to a type does not compile without its check. */
export type Check = (value: unknown) => boolean;
type Is<T> = (value: unknown) => value is T;
type Fields<T> = { readonly [K in keyof T]-?: Check };
export type Json = { readonly [name: string]: unknown };

export const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);
export const isText = (value: unknown): value is string => typeof value === 'string';
export const isFlag = (value: unknown): value is boolean => typeof value === 'boolean';
export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parts of what somebody else wrote. What is not there, or is something else, is empty. */
export function partOf(value: unknown, name: string): Json {
  const part = isObject(value) ? value[name] : null;
  return isObject(part) ? part : {};
}
export const objectsIn = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.filter(isObject) : []);

export const isOneOf =
  (...allowed: readonly unknown[]): Check =>
  (value) =>
    allowed.includes(value);
export const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
export const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
export const listOf =
  (check: Check, most = Number.POSITIVE_INFINITY): Check =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every(check);
export const recordOf =
  (isName: Check, check: Check): Check =>
  (value) =>
    isObject(value) && Object.entries(value).every(([name, entry]) => isName(name) && check(entry));

export function shape<T>(fields: Fields<T>): Is<T> {
  const checks: readonly (readonly [string, Check])[] = Object.entries(fields);
  return (value): value is T => isObject(value) && checks.every(([name, check]) => check(value[name]));
}

/** One shape for each value of `kind`. */
export function union<T extends { readonly kind: string }>(
  kinds: {
    readonly [K in T['kind']]: Fields<Omit<Extract<T, { readonly kind: K }>, 'kind'>>;
  },
): Is<T> {
  return (value): value is T => {
    const kind = isObject(value) ? value['kind'] : undefined;
    return isText(kind) && Object.hasOwn(kinds, kind) && shape(Reflect.get(kinds, kind))(value);
  };
}

/** Null if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // Nothing of ours: the shape check finds it.
  }
}
