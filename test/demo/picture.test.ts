import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it("the picture of the demo shows the terminal's text, and no control sequences", () => {
  const picture = readFileSync(join(import.meta.dirname, '../../docs/demo.svg'), 'utf8');
  expect(picture).toContain('(real)');
  expect(picture.match(/\[[0-9;]*[mAJKH]\b|\\u001b/g)).toBeNull();
});
