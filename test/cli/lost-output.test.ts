import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

describe('output that cannot be written', () => {
  let directory = '';
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-output-'));
    writeFileSync(join(directory, 'bad.yaml'), 'kind: Nothing\n', { mode: 0o644 });
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  /** `where`: a redirection, or a pipe. */
  function shell(command: string, where: string) {
    const script = `cd ${ROOT}; ${command.replace('nodewarden', `${process.execPath} --import tsx src/main.ts`)} ${where}`;
    const { status, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8', cwd: ROOT });
    return { status, stderr };
  }

  it('is said, and is a failure', () => {
    expect(shell('nodewarden config schema', '> /dev/full')).toEqual({
      status: 1,
      stderr: expect.stringMatching(/^the output is not complete: ENOSPC.*\n$/),
    });
  });

  it('leaves a failure what it is', () => {
    const check = `nodewarden config check --config ${directory}/bad.yaml`;
    const { status } = shell(check, '> /dev/null');
    expect(status).toBe(2);
    expect(shell(check, '> /dev/full').status).toBe(2);
  });

  it('is said also if only the first part of it fits', () => {
    const file = join(directory, 'out');
    const { status, stderr } = shell('ulimit -f 2; nodewarden config schema', `> ${file}`);
    expect(statSync(file).size).toBe(2_048);
    expect([status, stderr]).toEqual([1, expect.stringContaining('the output is not complete: EFBIG')]);
  });

  it('is no failure if its reader went away', () => {
    expect(shell('nodewarden config schema', '| true; exit $PIPESTATUS')).toEqual({ status: 0, stderr: '' });
  });
});
