/** Control and format characters, line and paragraph separators, surrogates without their other half. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * The text with everything that could end a line, or move, hide or reorder text on a terminal written as \uXXXX, beyond
 * the BMP as two of them: what a name chosen by a tenant must not bring onto a terminal or into a log
 * (beside-a-kubelet.md H5, H6). Still valid inside a JSON string.
 */
export function escapeUnsafe(text: string): string {
  return text.replace(UNSAFE, (char) =>
    Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join(''),
  );
}
