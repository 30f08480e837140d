import { appendFileSync, mkdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { aCommand } from './a-command.ts';

const READS = /^not read: .*EACCES: .*; only root and the group nodewarden may read it: use sudo\n$/;
const ROOT = /EACCES: .*; only root may do this: use sudo\n/;

describe.skipIf(process.getuid?.() !== 0)('a user without rights [needs root]', () => {
  const command = aCommand();

  it.each([
    ['history', READS],
    ['trial', READS],
    ['release-held', ROOT],
    ['run', ROOT],
  ])('is told by %s who has them', async (name, said) => {
    for (const place of ['state', 'run']) mkdirSync(command.path(place), { mode: 0o700 });
    const places = `stateDirectory: ${command.path('state')}\nruntimeDirectory: ${command.path('run')}\n`;
    appendFileSync(command.path('config.yaml'), places);
    const { code, err } = await command.runAsNobody([name, ...command.config()]);
    expect(err).toMatch(said);
    expect(code).toBe(1);
  });
});
