/**
 * Control characters, line and paragraph separators, and the characters that reorder or hide text: what a name chosen
 * by a tenant must not bring onto a terminal or into a log (beside-a-kubelet.md H5, H6).
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The text with everything unsafe written as \uXXXX: harmless on a terminal, and still valid inside a JSON string. */
export function escapeUnsafe(text: string): string {
  return text.replace(UNSAFE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
