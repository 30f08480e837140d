import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aBench, anExecutable, detailOf } from './an-agent.ts';

const DIRECTORY = '/usr/sbin';
const has = (agent: string): boolean => existsSync(`${DIRECTORY}/${agent}`);
const always = (): null => null;
const bench = (rest = {}) =>
  aBench(
    {},
    {
      agentDirectory: DIRECTORY,
      ...rest,
    },
  );

describe("Debian's fence agents", () => {
  it.skipIf(!has('fence_dummy'))('fence_dummy is asked, switched off, asked again, and switched on', async () => {
    const { agents, directory, method } = bench();
    const file = join(directory, 'power state');
    writeFileSync(file, 'on');
    const dummy = method('fence_dummy', { parameters: { status_file: file } });
    const power = async () => (await agents.status(dummy, 'dead')).power;
    expect(await power()).toEqual({ known: true, value: 'on' });
    expect((await agents.command(dummy, 'off', always)).saysDone).toEqual({ known: true, value: true });
    expect(await power()).toEqual({ known: true, value: 'off' });
    expect((await agents.command(dummy, 'on', always)).saysDone.known).toBe(true);
    expect(await power()).toEqual({ known: true, value: 'on' });
  });

  it.skipIf(!has('fence_dummy'))(
    'fence_dummy says that a machine it does not know is off: why it is no proof',
    async () => {
      const { agents, directory, method } = bench();
      const dummy = method('fence_dummy', { parameters: { status_file: join(directory, 'none') } });
      expect((await agents.status(dummy, 'dead')).power).toEqual({ known: true, value: 'off' });
    },
  );

  it.skipIf(!has('fence_dummy'))('a parameter that fence_dummy does not know is refused before it runs', async () => {
    const { agents, method } = bench();
    const wrong = method('fence_dummy', { parameters: { status_fil: '/tmp/x' } });
    expect(detailOf((await agents.status(wrong, 'dead')).power)).toBe('status_fil: the agent has no such parameter');
  });

  for (const agent of ['fence_ipmilan', 'fence_virsh', 'fence_apc_snmp', 'fence_redfish', 'fence_brocade']) {
    it.skipIf(!has(agent))(`${agent} says what it knows`, async () => {
      const metadata = await bench().agents.metadata(agent);
      if (!metadata.known) throw new Error(metadata.detail);
      expect(metadata.value.parameters.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['ip', 'password', 'action']),
      );
      expect(metadata.value.actions).toEqual(expect.arrayContaining(['on', 'off', 'status']));
    });
  }

  it.skipIf(!has('fence_ipmilan'))(
    'fence_ipmilan hands its password to ipmitool as an argument, which is found, and kept out of what is said',
    async () => {
      const { agents, directory, method } = bench({ secrets: { bmc: 'geheim-4711' } });
      // Stands in for a BMC that is reached: what matters is how the agent calls it.
      const tool = join(directory, 'ipmitool');
      anExecutable(tool, '#!/bin/sh\nsleep 2\necho "cannot log in: $*" >&2\nexit 1\n');
      const parameters = { ip: '127.0.0.1', username: 'fencer', lanplus: '1', ipmitool_path: tool };
      const bmc = method('fence_ipmilan', { parameters, secrets: { password: 'bmc' } });
      const { power, exposed } = await agents.exposure(bmc);
      expect(exposed).toEqual(['ipmitool']);
      expect(detailOf(power)).toMatch(/^exit status 1; it said: /);
      expect(detailOf(power)).not.toContain('geheim');
    },
  );
});
