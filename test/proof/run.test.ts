import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { readLab } from '../../proof/evidence.ts';
import { run } from '../../proof/run.ts';

const never = new AbortController().signal;
const shell = (script: string, minutes = 1) => ({
  argv: ['/bin/sh', '-c', script],
  minutes,
  isForRoot: false,
  read: readLab,
});
const says = (text: string, more = '') => shell(`printf '${text}\\n'; ${more}`);
/** Whoever has this in its command line; a pattern that does not find itself. */
const find = (pattern: string): string =>
  execFileSync('/bin/sh', ['-c', `grep -lsa '${pattern}' /proc/[0-9]*/cmdline || true`], { encoding: 'utf8' });

it('a command is run to its end, and its results are read', async () => {
  expect(await run(says('ok      a (1.0 s)\\nlab: 1 passed, 0 failed, 0 skipped'), '', never)).toMatchObject({
    ended: null,
    checks: [{ name: 'a', holds: true, figures: '' }],
    isWhole: true,
  });
});
it('a command that fails, or cannot be started, is reported', async () => {
  expect(await run(says('ok      a (1.0 s)', 'exit 3'), '', never)).toMatchObject({ ended: 'it ended with 3' });
  const missing = { ...shell(''), argv: ['/nonexistent/lab'] };
  expect(await run(missing, '', never)).toMatchObject({ ended: expect.stringContaining('ENOENT'), isWhole: false });
});
it('a command that takes too long is stopped, with everything that it started', async () => {
  const ran = await run(shell('sleep 86399 & sleep 86399', 0.001), '', never);
  expect(ran).toMatchObject({ ended: 'it was stopped after 0.001 minutes' });
  expect(find('8639[9]')).toBe('');
});
it('an interrupt stops it, and it then proves nothing', async () => {
  expect(await run(shell('sleep 86398'), '', AbortSignal.timeout(50))).toEqual({ why: 'the proof was interrupted' });
});
