/** Types of units that have a cgroup and that we bind; the type is part of the interface's name. */
export const UNIT_TYPES = { service: 'Service', slice: 'Slice', scope: 'Scope' } as const;
const MAX_NAME = 255;

/** The interface of its own properties, after `org.freedesktop.systemd1.`. */
export function unitType(name: string): string {
  const suffix = name.slice(name.lastIndexOf('.') + 1);
  return suffix === 'slice' || suffix === 'scope' ? UNIT_TYPES[suffix] : UNIT_TYPES.service;
}

/** Whether its cgroup is of interest: a timer, a target and the like have none. */
export const isOfProcesses = (name: string): boolean =>
  Object.hasOwn(UNIT_TYPES, name.slice(name.lastIndexOf('.') + 1));

/** Why this is not the name of a unit with processes; null = it is. */
export function unitNameMistake(name: string): string | null {
  const match = /^[A-Za-z0-9:_.\\@-]+\.([a-z]+)$/.exec(name);
  if (name.length > MAX_NAME) return `a unit's name has at most ${MAX_NAME} characters`;
  if (match === null) return 'not the full name of a systemd unit, such as web.service';
  if (!Object.hasOwn(UNIT_TYPES, match[1] ?? ''))
    return 'only services, slices and scopes have processes to measure and stop';
  if (name.startsWith('@')) return 'an instance of no template: there is none before the "@"';
  return name.includes('@.') ? 'a template: name an instance of it, such as web@1.service' : null;
}

const UNITS = '/org/freedesktop/systemd1/unit/';

/** The one place where a unit's name becomes an object path: systemd's bus_label_escape. */
export function unitPath(name: string): string {
  const bytes = [...new TextEncoder().encode(name)];
  const label = bytes.map((byte, i) => {
    const char = String.fromCharCode(byte);
    const isPlain = /[A-Za-z]/.test(char) || (i > 0 && /[0-9]/.test(char));
    return isPlain ? char : `_${byte.toString(16).padStart(2, '0')}`;
  });
  return `${UNITS}${label.length === 0 ? '_' : label.join('')}`;
}

/** The reverse; null: not the path of a unit. */
export function unitName(path: string): string | null {
  if (!path.startsWith(UNITS)) return null;
  const label = path.slice(UNITS.length);
  return label.replace(/_([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
