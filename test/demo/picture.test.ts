import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it('the picture of the demo shows what stood on the terminal, and no command to it', () => {
  const picture = readFileSync(join(import.meta.dirname, '../../docs/demo.svg'), 'utf8');
  expect(picture).toContain('(real)');
  expect(picture.match(/\[[0-9;]*[mAJKH]\b|\\u001b/g)).toBeNull();
});
