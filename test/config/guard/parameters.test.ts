import { describe, expect, it } from 'vitest';
import type { AgentMetadata, AgentParameter } from '../../../src/config/guard/agent-metadata.ts';
import { known, type Reading, unknown } from '../../../src/core/reading.ts';
import { sayProblem } from '../../../src/document/problem.ts';
import { load } from './a-guard-config.ts';

const named = (name: string, more: Partial<AgentParameter> = {}): AgentParameter => ({
  ...{ name, isRequired: false, isOld: false, oldName: null, type: 'string', options: [] },
  ...more,
});
const AGENT: AgentMetadata = {
  parameters: [
    named('action', { isRequired: true }),
    named('ip', { isRequired: true, oldName: 'ipaddr' }),
    named('ipaddr', { isRequired: true, isOld: true }),
    named('login', { isOld: true }),
    named('username', { isRequired: true, oldName: 'login' }),
    named('password', { oldName: 'passwd' }),
    named('plug', { oldName: 'port' }),
    named('auth', { type: 'select', options: ['md5', 'none'] }),
    named('lanplus', { type: 'boolean' }),
    named('ipport', { type: 'integer' }),
    named('power_wait', { type: 'second' }),
    named('redfish-uri', { isOld: true }),
    named('redfish_uri', { oldName: 'redfish-uri' }),
  ],
  actions: ['on', 'off', 'status', 'reboot', 'metadata'],
};

function check(text: string, metadata: Reading<AgentMetadata> = known(AGENT)): readonly string[] {
  const { problems, warnings } = load(text, undefined, () => metadata);
  return [...problems, ...warnings].map(sayProblem).map((said) => said.replace(/^g\.yaml:\d+:\d+: fencing\./, ''));
}
const template = (parameters: string, secrets = '{password: p}'): string =>
  `dryRun: true
fencing:
  templates: {t: {agent: fence_redfish, parameters: {username: a${parameters}}, secrets: ${secrets}}, p: {agent: fence_apc, parameters: {ip: pdu, username: a}}}
  nodes: {host0: {power: [[{template: t, parameters: {ip: x}}], [{template: p, parameters: {plug: "1"}}]]}}`;

describe('parameters that the agent itself names', () => {
  it('are accepted', () => {
    expect(check(template(', auth: md5, lanplus: "on", ipport: "623", power_wait: "3", redfish_uri: /a'))).toEqual([]);
    expect(check(template(', redfish-uri: /a'))).toEqual([]);
  });
  it.each([
    [', passwrod: x', 'passwrod: fence_redfish has no such parameter; did you mean password? then: secrets.password'],
    [', lanpuls: "1"', 'lanpuls: fence_redfish has no such parameter; did you mean lanplus?'],
    [', colour: red', 'colour: fence_redfish has no such parameter'],
    [', login: x', 'login: is the old name of username; say username'],
    [', port: x', 'port: fence_redfish has no such parameter; did you mean ipport?'],
    [', auth: md6', 'auth: must be one of md5, none, not "md6"; did you mean md5?'],
    [', lanplus: maybe', 'lanplus: must be "1" or "0", not "maybe"'],
    [', ipport: ssh', 'ipport: must be a whole number, not "ssh"'],
    [', power_wait: "-1"', 'power_wait: must be a whole number, not "-1"'],
  ])('%s', (parameters, sentence) => {
    expect(check(template(parameters))).toEqual([`templates.t.parameters.${sentence}`]);
  });
  it('and secrets', () => {
    expect(check(template('', '{pasword: p}'))).toEqual([
      'templates.t.secrets.pasword: fence_redfish has no such parameter; did you mean password?',
    ]);
    expect(check(template('', '{passwd: p}'))).toEqual([
      'templates.t.secrets.passwd: is the old name of password; say password',
    ]);
  });
  it('are needed where it says so, told once for a template', () => {
    const text = `dryRun: true
fencing:
  templates: {t: {agent: fence_apc, parameters: {ip: x}}}
  nodes:
    a: {power: [[{template: t, parameters: {plug: "1"}}]]}
    b: {power: [[{template: t, parameters: {plug: "2"}}]]}`;
    expect(check(text)).toEqual([
      'nodes.a.power[0][0]: fence_apc needs username: write it here, or for all under fencing.templates.t',
    ]);
  });
  it('are not passed where it cannot be asked, and refuse the template where its answer is none', () => {
    const said = (metadata: Reading<AgentMetadata>) => check(template(''), metadata);
    expect(said(unknown('absent', 'fence_redfish', 'not installed'))).toEqual([
      'templates.t: whether fence_redfish takes these parameters is unknown: not installed',
      'templates.p: whether fence_apc takes these parameters is unknown: not installed',
    ]);
    expect(said(unknown('malformed', 'fence_redfish', 'no XML'))).toEqual([
      'templates.t.agent: its metadata cannot be used: no XML',
      'templates.p.agent: its metadata cannot be used: no XML',
    ]);
    expect(said(known({ ...AGENT, actions: ['off', 'metadata'] }))).toEqual([
      'templates.t.agent: fence_redfish has no action on, status',
      'templates.p.agent: fence_apc has no action on, status',
    ]);
  });
});
