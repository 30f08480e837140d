import { parseDuration } from '../core/units/duration.ts';
import type { Problem } from '../document/problem.ts';
import { entryOf, type Fields } from './field.ts';

type Listen = { readonly host: string; readonly port: number };

/** `address:port`, the address in brackets where it has colons; null for anything else. */
export function parseListen(text: string): Listen | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:[\]]+)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? Number.NaN);
  return host !== undefined && port >= 1 && port <= 65_535 ? { host, port } : null;
}

/** Names and addresses that only this machine can reach. */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.[0-9]{1,3}){3}$/.test(host);
}

/** Rules between fields of our own kind. Values of a wrong type are skipped: the schema has reported them. */
export function sectionProblems(fields: Fields): readonly Problem[] {
  return [...httpProblems(fields), ...kubernetesProblems(fields), ...intervalProblems(fields)];
}

export function httpProblems(fields: Fields): readonly Problem[] {
  const section = fields.get('http')?.value;
  const listen = entryOf(section, 'listen');
  if (typeof listen !== 'string') return [];
  const parsed = parseListen(listen);
  const path = ['http', 'listen'];
  if (parsed === null) {
    return [
      fields.problemAt(path, `expected address:port, not ${JSON.stringify(listen)}; for example "127.0.0.1:20259"`),
    ];
  }
  if (isLoopback(parsed.host) || entryOf(section, 'allowRemote') === true) return [];
  const text = `${parsed.host} can be reached from other machines; set allowRemote: true if that is intended, or listen on 127.0.0.1`;
  return [fields.problemAt(path, text)];
}

function kubernetesProblems(fields: Fields): readonly Problem[] {
  if (fields.get('mode')?.value !== 'kubelet' || entryOf(fields.get('kubernetes')?.value, 'kubeconfig') !== undefined) {
    return [];
  }
  // The schema reports an existing section without it.
  if (fields.get('kubernetes') !== null) return [];
  const text = 'mode kubelet needs kubernetes.kubeconfig; for example "/etc/nodewarden/kubeconfig"';
  return [fields.problemAt(['mode'], text)];
}

function intervalProblems(fields: Fields): readonly Problem[] {
  const section = fields.get('monitoringInterval')?.value;
  const msOf = (key: string, fallback: string): number => {
    const value = entryOf(section, key) ?? fallback;
    const parsed = typeof value === 'string' ? parseDuration(value) : null;
    return parsed?.ok ? parsed.duration.ms : Number.NaN;
  };
  const isReversed = msOf('min', '2ms') > msOf('max', '10s');
  return isReversed ? [fields.problemAt(['monitoringInterval'], 'min must not be more than max')] : [];
}
