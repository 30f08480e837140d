import fs from 'node:fs';

/** How the unit starts the agent: what it gives Node.js before the program, and `Environment=`. */
export type UnitStart = {
  readonly flags: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/** @throws what no longer has the form that it is read by */
export function readUnitStart(file: string): UnitStart {
  const text = fs.readFileSync(file, 'utf8');
  const command = /^ExecStart=\S+\/node (?<flags>(?:\S+ )*?)\S+\/nodewarden\.js run$/m.exec(text)?.groups?.['flags'];
  if (command === undefined) throw new Error(`${file}: no ExecStart= of the form .../node FLAGS .../nodewarden.js run`);
  const environment = [...text.matchAll(/^Environment=(?<pair>.*)$/gm)].map(({ groups }) => {
    const [, name = '', value = ''] = /^(\w+)=([^\s"']*)$/.exec(groups?.['pair'] ?? '') ?? [];
    if (name === '') throw new Error(`${file}: Environment= with more than NAME=VALUE`);
    return [name, value];
  });
  return { flags: command.split(' ').filter((flag) => flag !== ''), environment: Object.fromEntries(environment) };
}
