import { readText } from './files.ts';

const MAX_BYTES = 1024 * 1024;

/** From /etc/passwd alone: querying other services may hang. */
export function userName(uid: number): string | null {
  const text = readText('/etc/passwd', MAX_BYTES);
  if (!text.known) return null;
  for (const line of text.value.split('\n')) {
    const [name = '', , id] = line.split(':');
    if (id === String(uid) && name !== '') return name;
  }
  return null;
}
