import { describe, expect, it } from 'vitest';
import { aCommand } from './a-command.ts';

const command = aCommand();

describe('guard history', () => {
  it('says why the records cannot be read, with status 1', async () => {
    const kubeconfig = command.path('no-such-file');
    const { code, out, err } = await command.run(['guard', 'history', '--kubeconfig', kubeconfig]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain(`cannot list the ConfigMaps of nodewarden-guard with ${kubeconfig}: `);
  });
});
