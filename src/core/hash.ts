/** FNV-1a, 32 bits: spreads texts evenly, and the same in every run. Not against anybody who wants two to be the same. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash;
}

/** The same as 8 hexadecimal digits. */
export const hexHashOf = (text: string): string => hashOf(text).toString(16).padStart(8, '0');
