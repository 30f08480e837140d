import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MAX_METADATA_BYTES, readAgentMetadata } from '../../../src/config/guard/agent-metadata.ts';
import { valueOrNull } from '../../../src/core/reading.ts';

const read = (xml: string) => readAgentMetadata(xml, 'fence_x');
const agent = (inner: string): string =>
  `<?xml version="1.0" ?>\n<resource-agent name="fence_x">${inner}</resource-agent>`;

describe('the metadata of a fence agent', () => {
  it('names parameters, types and actions', () => {
    const xml = agent(`
      <longdesc>a &lt;b&gt; <parameter name="no" /></longdesc>
      <parameters>
        <parameter name="ip" unique="0" required="1" obsoletes="ipaddr">
          <getopt mixed="-a, --ip=[ip]" /><content type="string" default="[&apos;&gt; &apos;]" />
        </parameter>
        <parameter name="ipaddr" required="1" deprecated="1"><content type="string"/></parameter>
        <parameter name="method" required="0">
          <content type="select" default="onoff"><option value="onoff" /><option value="cycle" /></content>
        </parameter>
      </parameters>
      <actions><action name="on" automatic="0"/><action name="off" /></actions>`);
    const ip = { name: 'ip', isRequired: true, isOld: false, oldName: 'ipaddr', type: 'string', options: [] };
    expect(read(xml)).toEqual({
      known: true,
      value: {
        parameters: [
          ip,
          { ...ip, name: 'ipaddr', isOld: true, oldName: null },
          { ...ip, name: 'method', isRequired: false, oldName: null, type: 'select', options: ['onoff', 'cycle'] },
        ],
        actions: ['on', 'off'],
      },
    });
  });
  it.each([
    ['', 'no <resource-agent>'],
    ['Usage: fence_x', 'no XML'],
    [agent('<parameters>'), 'no XML'],
    [agent('&bomb;'), 'no XML'],
    ['<other/>', 'no <resource-agent>'],
    [agent(' '.repeat(MAX_METADATA_BYTES)), 'more than 1024 KiB'],
  ])('that is none is unknown: %.30s', (xml, detail) => {
    expect(read(xml)).toMatchObject({ known: false, why: 'malformed', where: 'fence_x metadata' });
    expect(read(xml)).toHaveProperty('detail', expect.stringContaining(detail));
  });
  it('is read in bounded time, however deeply it is nested', () => {
    expect(read('<a>'.repeat(300_000))).toMatchObject({ known: false });
  });
});

/** The real agents, where they are installed (Debian: fence-agents). */
describe.each(['fence_ipmilan', 'fence_virsh', 'fence_redfish', 'fence_apc_snmp', 'fence_dummy', 'fence_brocade'])(
  'the metadata of %s',
  (name) => {
    const program = `/usr/sbin/${name}`;
    it.skipIf(!existsSync(program))('can be read (skipped where the agent is not installed)', () => {
      const xml = execFileSync(program, {
        input: 'action=metadata\n',
        encoding: 'utf8',
        stdio: ['pipe', 'pipe', 'ignore'],
      });
      const metadata = valueOrNull(read(xml));
      const named = new Map(metadata?.parameters.map((parameter) => [parameter.name, parameter]));
      expect(metadata?.actions).toEqual(expect.arrayContaining(['on', 'off', 'status', 'metadata']));
      expect(named.get('action')).toMatchObject({ isRequired: true, isOld: false });
      if (name !== 'fence_dummy') {
        expect(named.get('ip')).toMatchObject({ oldName: 'ipaddr', type: 'string' });
        expect(named.get('ipaddr')).toMatchObject({ isOld: true });
      }
    });
  },
);
