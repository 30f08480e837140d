import fs from 'node:fs';

/** How the unit starts the agent: what it gives Node.js before the program, and `Environment=`. */
export type UnitStart = {
  readonly flags: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/** @throws what no longer has the form that it is read by */
export function readUnitStart(file: string): UnitStart {
  const text = fs.readFileSync(file, 'utf8');
  const command = /^ExecStart=\S+\/node (?<flags>.* )\S+\/nodewarden\.js run$/m.exec(text)?.groups?.['flags'];
  if (command === undefined) throw new Error(`${file}: no ExecStart= of the form .../node FLAGS .../nodewarden.js run`);
  const pairs = [...text.matchAll(/^Environment=(?<name>\w+)=(?<value>\S+)$/gm)];
  return {
    flags: command.split(' ').filter((flag) => flag !== ''),
    environment: Object.fromEntries(pairs.map(({ groups }) => [groups?.['name'] ?? '', groups?.['value'] ?? ''])),
  };
}
