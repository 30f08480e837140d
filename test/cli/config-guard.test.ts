import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { aCommand } from './a-command.ts';

/** An agent that is installed nowhere: what it takes is unknown. */
const text = (more = ''): string => `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenGuardConfiguration
${more}fencing:
  templates: {own: {agent: fence_nodewarden_test, proof: power, parameters: {ip: 10.0.9.1, plug: "{node}"}}}
  default: {power: [[{template: own}]]}
`;

describe('config, for the guard', () => {
  const command = aCommand();
  const file = (content: string): string => {
    const path = command.path('guard.yaml');
    writeFileSync(path, content, { mode: 0o644 });
    return path;
  };
  const run = (...args: readonly string[]) => command.run(['config', ...args]);

  it('check says what is wrong, and what it cannot know', async () => {
    const path = file(text());
    expect(await run('check', path)).toEqual({
      code: 2,
      out: expect.stringMatching(
        /^warning .*guard\.yaml:4:20: fencing\.templates\.own: whether fence_nodewarden_test takes these parameters is unknown: .*does not exist\n$/,
      ),
      err: `${path}:1:1: dryRun: missing: say true (decide and tell, touch nothing) or false (armed)\n1 error\n`,
    });
    const { code, out } = await run('check', '-o', 'json', file(text('dryRun: true\n')));
    expect([code, JSON.parse(out)]).toMatchObject([0, { valid: true, file: path, problems: [] }]);
  });
  it('show says every value, its origin, and what two replicas must agree on', async () => {
    const { code, out } = await run('show', file(text('dryRun: true\ndeadAfter: 3m\n')));
    expect(code).toBe(0);
    expect(out).toMatch(/^deadAfter +3m +.*guard\.yaml:4$/m);
    expect(out).toMatch(/^suspectAfter +40s +default$/m);
    expect(out).toMatch(/\nHash [0-9a-f]{16}: two guards of one cluster must have the same\.\n$/);
  });
  it('schema prints that of the kind', async () => {
    const { out } = await run('schema', 'NodewardenGuardConfiguration');
    expect(JSON.parse(out)).toMatchObject({ title: 'NodewardenGuardConfiguration' });
    expect(JSON.parse((await run('schema')).out)).toMatchObject({ title: 'NodewardenConfiguration' });
  });
});
