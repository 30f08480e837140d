import { byId, el } from './dom.ts';

const SAID_MAX = 5;

/** For screen readers, politely. */
export function announce(text: string): void {
  const place = byId('said');
  place.append(el('p', {}, text));
  while (place.children.length > SAID_MAX) place.firstElementChild?.remove();
}

/** Announces what is new since the last call; at the first one, nothing is. */
export function createNews(): (told: readonly { readonly key: string; readonly text: string }[]) => void {
  let heard: ReadonlySet<string> | null = null;
  return (told) => {
    const before = heard;
    if (before !== null) for (const { key, text } of told) if (!before.has(key)) announce(text);
    heard = new Set(told.map(({ key }) => key));
  };
}
