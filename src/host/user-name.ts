import { readText } from './files.ts';

const MAX_BYTES = 1024 * 1024;

/** From /etc/passwd alone: querying other services may hang. */
export function userName(uid: number): string | null {
  return users().find(({ id, name }) => id === String(uid) && name !== '')?.name ?? null;
}

/** As `userName`; null: there is no such user. */
export function userId(wanted: string): number | null {
  const id = users().find(({ name }) => name === wanted)?.id ?? '';
  return /^\d+$/.test(id) ? Number(id) : null;
}

function users(): readonly { readonly name: string; readonly id: string }[] {
  const text = readText('/etc/passwd', MAX_BYTES);
  if (!text.known) return [];
  return text.value.split('\n').map((line) => {
    const [name = '', , id = ''] = line.split(':');
    return { name, id };
  });
}
