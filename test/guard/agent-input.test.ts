import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { agentInput } from '../../src/guard/agent-io.ts';

const LIBRARY = '/usr/share/fence/fencing.py';
const names = new Set(['ip', 'plug', 'password', 'username']);
const textOf = (values: { readonly [name: string]: string }): string => {
  const text = agentInput('status', values, names);
  if (!text.known) throw new Error(text.detail);
  return text.value;
};

describe('the input of an agent', () => {
  it('is a line for each value, and the action last', () => {
    expect(agentInput('off', { ip: '10.0.9.10', plug: '1,2' }, names)).toEqual({
      known: true,
      value: 'ip=10.0.9.10\nplug=1,2\naction=off\n',
    });
  });

  it('wraps in quotes what agents would trim', () => {
    expect(textOf({ ip: ' a', plug: 'a\u00a0', password: '"a"', username: 'a "b" c' })).toBe(
      'ip=" a"\nplug="a\u00a0"\npassword=""a""\nusername=a "b" c\naction=status\n',
    );
  });

  it.each([
    [{ action: 'reboot' }, 'action', 'the action is not a parameter'],
    [{ passwrod: 'hidden' }, 'passwrod', 'the agent has no such parameter'],
    [{ ip: 'a\naction=reboot' }, 'ip', 'it contains a control character, such as a line end'],
    [{ ip: 'a\rb' }, 'ip', 'it contains a control character, such as a line end'],
    [{ ip: 'a\0b' }, 'ip', 'it contains a control character, such as a line end'],
    [{ ip: 'a\u0085b' }, 'ip', 'it contains a control character, such as a line end'],
  ])('refuses %j, and does not repeat the value', (values, where, detail) => {
    expect(agentInput('status', values, new Set([...names, 'action']))).toEqual({
      known: false,
      why: 'malformed',
      where,
      detail,
    });
  });

  it.skipIf(!existsSync(LIBRARY))("is read back as it was by the agents' own library", () => {
    const value = fc
      .string({
        unit: fc.oneof(
          fc.constantFrom(' ', '"', "'", '\\', '#', '=', '\u00a0', '\u3000', 'a'),
          fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
        ),
      })
      .filter((text) => !/\p{Cc}/u.test(text));
    const all = fc.sample(fc.record({ plug: value, ip: value, password: value, username: value }), 500);
    const inputs = all.map(textOf);
    const program = `
import sys, json, io
sys.path.append("/usr/share/fence")
from fencing import _parse_input_stdin
read = []
for text in json.load(sys.stdin):
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8")), encoding="utf-8")
    read.append(_parse_input_stdin(["port", "ipaddr", "passwd", "login", "action"]))
print(json.dumps(read))
`;
    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', program], {
      input: JSON.stringify(inputs),
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    const read = JSON.parse(stdout).map((options: { readonly [name: string]: string }) => ({
      plug: options['--plug'],
      ip: options['--ip'],
      password: options['--password'],
      username: options['--username'],
    }));
    expect(read).toEqual(all);
  });
});
