import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A temporary directory with these files (null = a directory), removed after the test. */
export function aTree(files: { readonly [path: string]: string | null }): string {
  const root = mkdtempSync(join(tmpdir(), 'nodewarden-test-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    if (text === null) mkdirSync(join(root, path));
    else writeFileSync(join(root, path), text);
  }
  return root;
}

/** What a kernel file may be instead of what it should be (architecture 4.3), and what a reader says of it. */
export const DAMAGE = [
  { name: 'empty', text: '', why: 'malformed' },
  { name: 'cut in the middle of a number', text: '12', why: 'malformed' },
  { name: 'a line too long', text: '12\n34\n', why: 'malformed' },
  { name: 'text', text: 'none\n', why: 'malformed' },
  { name: 'a number with something behind it', text: '12kB\n', why: 'malformed' },
  { name: 'a negative number', text: '-1\n', why: 'malformed' },
  { name: 'a fraction', text: '1.5\n', why: 'malformed' },
  { name: 'longer than any number', text: `${'1'.repeat(100)}\n`, why: 'malformed' },
  { name: 'a directory', text: null, why: 'unreadable' },
  { name: 'missing', text: undefined, why: 'absent' },
] as const;

/** A tree in which `path` is damaged so. */
export function aDamagedTree(
  files: { readonly [path: string]: string },
  path: string,
  text: string | null | undefined,
): string {
  const { [path]: _, ...others } = files;
  return aTree(text === undefined ? others : { ...others, [path]: text });
}
