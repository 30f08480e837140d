import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { redactOutput } from '../../src/guard/agent-io.ts';
import { MAX_SECRET_BYTES, readSecret } from '../../src/host/own/secret-file.ts';
import { aTree } from '../host/tree.ts';
import { aBench, anExecutable, detailOf } from './an-agent.ts';

const isRoot = process.getuid?.() === 0;
const aSecret = (text: string | Buffer, mode = 0o400): string => {
  const directory = aTree({});
  writeFileSync(join(directory, 'bmc'), text);
  chmodSync(join(directory, 'bmc'), mode);
  return directory;
};

describe('a secret', () => {
  it('is a file, without one line end', () => {
    expect(readSecret(aSecret('se cret\n'), 'bmc')).toEqual({ known: true, value: 'se cret' });
    expect(readSecret(aSecret('sécret'), 'bmc')).toEqual({ known: true, value: 'sécret' });
    expect(readSecret(aSecret(`${'x'.repeat(MAX_SECRET_BYTES)}\n`), 'bmc').known).toBe(true);
  });

  it('of a mounted Secret is found through its links', () => {
    const directory = aTree({ '..v1/bmc': 'first', '..v2/bmc': 'second' });
    for (const version of ['v1', 'v2']) chmodSync(join(directory, `..${version}/bmc`), 0o440);
    symlinkSync('..v1', join(directory, '..data'));
    symlinkSync('..data/bmc', join(directory, 'bmc'));
    chmodSync(directory, 0o1777);
    expect(readSecret(directory, 'bmc')).toEqual({ known: true, value: 'first' });
    symlinkSync('..v2', join(directory, '..new'));
    renameSync(join(directory, '..new'), join(directory, '..data'));
    expect(readSecret(directory, 'bmc')).toEqual({ known: true, value: 'second' });
  });

  it.each([
    ['', 'it is empty'],
    ['\n', 'it is empty'],
    ['a\nb\n', 'it contains a control character, such as a second line or a Windows line end'],
    ['a\r\n', 'it contains a control character, such as a second line or a Windows line end'],
    [Buffer.from([0x61, 0xff]), 'it is not UTF-8 text'],
    ['x'.repeat(MAX_SECRET_BYTES + 1), 'it is larger than 4096 bytes'],
    ['x'.repeat(10 ** 6), 'it is larger than 4096 bytes'],
  ])('%j is refused', (text, detail) => {
    expect(detailOf(readSecret(aSecret(text), 'bmc'))).toBe(detail);
  });

  it.each([0o444, 0o404, 0o420, 0o402])('that others may use (mode %o) is refused, with what to do', (mode) => {
    const directory = aSecret('geheim', mode);
    const detail = detailOf(readSecret(directory, 'bmc'));
    expect(detail).toContain(`0${mode.toString(8)}`);
    expect(detail).toContain('chown root');
    expect(detail).not.toContain('geheim');
  });

  it.skipIf(!isRoot)('of another user, or of a group that is not ours, is refused', () => {
    const directory = aSecret('secret', 0o440);
    expect(readSecret(directory, 'bmc').known).toBe(true);
    chownSync(join(directory, 'bmc'), 0, 12_345);
    expect(detailOf(readSecret(directory, 'bmc'))).toContain('others may use it (mode 0440)');
    chownSync(join(directory, 'bmc'), 12_345, 0);
    expect(detailOf(readSecret(directory, 'bmc'))).toContain('belongs to user 12345');
  });

  it('that is missing, no file, or not in the directory is refused', () => {
    const directory = aSecret('secret');
    mkdirSync(join(directory, 'sub'));
    expect(readSecret(directory, 'none')).toMatchObject({ known: false, why: 'absent' });
    expect(detailOf(readSecret(directory, 'sub'))).toBe('it is not a file');
    for (const name of ['../bmc', '/etc/hostname', '.', '..', '', 'a b']) {
      expect(detailOf(readSecret(directory, name))).toMatch(/^a secret is a file of its directory/);
    }
  });
});

describe('G12: a secret in a run', () => {
  const password = `geheim-${randomBytes(8).toString('hex')}`;
  const secret = { secrets: { password: 'bmc' } };

  it('goes to the standard input, and is found nowhere in /proc, nor in what is said', async () => {
    const bench = aBench(
      {
        fence_a:
          'value password > got; echo > started; while [ ! -e go ]; do sleep 0.02; done; echo "no $(value password)" >&2; exit 1',
      },
      { secrets: { bmc: `${password}\n` } },
    );
    const running = bench.agents.status(bench.method('fence_a', secret), 'dead');
    await bench.appears('started');
    expect(holdersOf(password)).toEqual([]);
    expect(holdersOf(bench.directory)).not.toEqual([]); // The search finds what is there.
    writeFileSync(join(bench.directory, 'go'), '');
    const { power } = await running;
    expect(bench.read('got')).toBe(`${password}\n`);
    expect(detailOf(power)).toBe('exit status 1; it said: no [secret]');
  });

  it('is read again for each run', async () => {
    const bench = aBench({ fence_a: 'value password >> got; echo "Status: ON"' }, { secrets: { bmc: 'first\n' } });
    await bench.agents.status(bench.method('fence_a', secret), 'dead');
    writeFileSync(join(bench.directory, 'secrets/bmc'), 'second\n');
    await bench.agents.status(bench.method('fence_a', secret), 'dead');
    expect(bench.read('got')).toBe('first\nsecond\n');
  });

  it('that cannot be read starts nothing', async () => {
    const bench = aBench({ fence_a: 'echo > ran; echo "Status: ON"' });
    const { power } = await bench.agents.status(bench.method('fence_a', secret), 'dead');
    expect(power).toMatchObject({ known: false, why: 'absent', where: 'test of=fence_a' });
    expect(detailOf(power)).toMatch(/secrets\/bmc: ENOENT/);
    expect(() => bench.read('ran')).toThrow();
  });

  it('that an agent hands to a program as an argument is reported with the name of the program', async () => {
    const bench = aBench(
      { fence_a: './tool -P "$(value password)"; echo "Status: ON"' },
      { secrets: { bmc: password } },
    );
    anExecutable(join(bench.directory, 'tool'), '#!/bin/sh\nsleep 2\n');
    expect(await bench.agents.exposure(bench.method('fence_a', secret))).toMatchObject({
      power: { known: true, value: 'on' },
      exposed: ['tool'],
    });
  });

  it('that goes to a program by its standard input is not reported', async () => {
    const bench = aBench(
      { fence_a: 'value password | (sleep 1; cat) >/dev/null; echo "Status: ON"' },
      { secrets: { bmc: password } },
    );
    expect((await bench.agents.exposure(bench.method('fence_a', secret))).exposed).toEqual([]);
  });
});

describe('output', () => {
  const shown = (stdout: string, secrets: readonly string[], isCut = false): string =>
    redactOutput({ stdout, stderr: '', isCut }, secrets).stdout;

  it('has every secret replaced, the longest first', () => {
    expect(shown('a ab abc', ['ab', 'abc'])).toBe('a [secret] [secret]');
    expect(shown('secret', ['e'])).toBe('s[secret]cr[secret]t');
    expect(shown('nothing', [])).toBe('nothing');
  });

  it('has it replaced as programs write it', () => {
    const secret = `a'b"c\\d&<é .*`;
    for (const form of [
      secret,
      `a'"'"'b"c\\d&<é .*`,
      JSON.stringify(secret),
      encodeURIComponent(secret),
      Buffer.from(secret).toString('base64'),
      `a'b"c\\d&amp;&lt;é .*`,
      `a\\'b"c\\\\d&<é .*`,
    ]) {
      expect(shown(`<${form}>`, [secret])).toContain('[secret]');
      expect(shown(`<${form}>`, [secret])).not.toMatch(/b.?"c|YSdi/);
    }
  });

  it('that was cut off ends before what may be the beginning of one', () => {
    expect(shown('line\nabcdefg', ['abcdefghij'], true)).not.toContain('abc');
  });
});

/** What of each process every user, or its own, may read: arguments and environment; as "pid file". */
function holdersOf(text: string): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => ['cmdline', 'environ', 'comm'].map((file) => `${pid} ${file}`))
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name.replace(' ', '/')}`).includes(text);
      } catch {
        return false; // It has ended, or is not ours.
      }
    });
}
