/** Control and format characters, line and paragraph separators, surrogates without their other half. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * Writes every character that could end a line, or move, hide or reorder text on a terminal, as \uXXXX (two of them beyond
 * the BMP). Names that tenants choose must pass through it on their way to a terminal or a log (beside-a-kubelet.md H5, H6).
 * The result is still valid inside a JSON string.
 */
export function escapeUnsafe(text: string): string {
  return text.replace(UNSAFE, (char) =>
    Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join(''),
  );
}
