import { describe, expect, it } from 'vitest';
import { load, problems } from './a-guard-config.ts';

describe('what is refused: templates', () => {
  const template = (text: string): string => `dryRun: true\nfencing: {templates: {t: ${text}}}`;
  it.each([
    [
      '{agent: fence_heuristics_ping}',
      'agent: fence_heuristics_ping is no proof of power off: it has no status; use it nowhere',
    ],
    ['{agent: fence_dummy}', 'agent: fence_dummy is no proof of power off: it is for tests'],
    ['{agent: fence_scsi}', "agent: fence_scsi is no proof of power off: it works through the local host's disks"],
    ['{agent: fence_amt}', 'agent: fence_amt is no proof of power off: it calls a sleeping machine off'],
    ['{agent: fence_skalar, proof: power}', 'agent: fence_skalar is no proof of power off'],
    [
      '{agent: fence_ipmilam}',
      'agent: nothing is known of what fence_ipmilam proves; did you mean fence_ipmilan?; if its off cuts the power and its status asks the device, add proof: power',
    ],
    ['{agent: /bin/sh}', 'agent: must be the name of a fence agent; for example "fence_redfish"'],
    ['{agent: fence_virsh, proof: fabric}', 'proof: must be power, not "fabric"'],
    [
      '{agent: fence_virsh, parameters: {missing_as_off: "1"}}',
      'parameters.missing_as_off: a machine that the device does not know would count as off',
    ],
    [
      '{agent: fence_virsh, parameters: {missing-as-off: "1"}}',
      'parameters.missing-as-off: a machine that the device does not know would count as off',
    ],
    [
      '{agent: fence_virsh, parameters: {action: reboot}}',
      'parameters.action: the guard says what the agent does; remove it',
    ],
    ['{agent: fence_virsh, parameters: {delay: "5"}}', 'parameters.delay: a power-off must begin at once'],
    [
      '{agent: fence_ipmilan, parameters: {method: cycle}}',
      'parameters.method: must be onoff: other ways leave nothing that could be proven',
    ],
    ['{agent: fence_virsh, parameters: {passwd_script: /x}}', 'parameters.passwd_script: it would run a program'],
    ['{agent: fence_virsh, parameters: {password_script: /x}}', 'parameters.password_script: it would run a program'],
    [
      '{agent: fence_virsh, parameters: {snmp_priv_passwd_script: /x}}',
      'parameters.snmp_priv_passwd_script: it would run a program',
    ],
    [
      '{agent: fence_virsh, parameters: {verbose_level: "3"}}',
      'parameters.verbose_level: its output may contain secrets',
    ],
    ['{agent: fence_virsh, parameters: {debug_file: /x}}', 'parameters.debug_file: its output may contain secrets'],
    ['{agent: fence_aws, parameters: {boto3_debug: "1"}}', 'parameters.boto3_debug: its output may contain secrets'],
    [
      '{agent: fence_virsh, parameters: {plug_separator: ";"}}',
      'parameters.plug_separator: a method switches one outlet',
    ],
    ['{agent: fence_ipmilan, parameters: {port_as_ip: "1"}}', 'parameters.port_as_ip: say ip'],
    [
      '{agent: fence_gce, parameters: {baremetalsolution: "1"}}',
      'parameters.baremetalsolution: it would answer the opposite of what is asked',
    ],
    [
      '{agent: fence_azure_arm, parameters: {network-fencing: "1"}}',
      'parameters.network-fencing: its answer would come from the state of the network',
    ],
    ['{agent: fence_virsh, parameters: {ip: "a\\nb"}}', 'parameters.ip: must not contain a control character'],
    ['{agent: fence_virsh, parameters: {"ip\\naction": x}}', 'parameters["ip\\naction"]: is no name of a parameter'],
    ['{agent: fence_virsh, parameters: {"a=b": x}}', 'parameters["a=b"]: is no name of a parameter'],
    [
      '{agent: fence_virsh, parameters: {ip: "{nodename}"}}',
      'parameters.ip: unknown placeholder {nodename}; the only one is {node}',
    ],
    [
      '{agent: fence_virsh, parameters: {ipport: 22}}',
      'parameters.ipport: expected text, not the number 22; for example "1"',
    ],
    [
      '{agent: fence_virsh, parameters: {password: hunter2}}',
      'parameters.password: is a secret: put it in a file of secretDirectory, and name the file under secrets, as {password: FILE}',
    ],
    [
      '{agent: fence_virsh, parameters: {passwd: hunter2}}',
      'parameters.passwd: is a secret: put it in a file of secretDirectory, and name the file under secrets, as {password: FILE}',
    ],
    ['{agent: fence_apc_snmp, parameters: {community: private}}', 'parameters.community: is a secret'],
    [
      '{agent: fence_virsh, parameters: {passwrod: hunter2}}',
      'parameters.passwrod: did you mean password? It is a secret',
    ],
    [
      '{agent: fence_redfish, parameters: {ip: "10.0.9.10:443"}}',
      'parameters.ip: must not contain a port: write that under ipport',
    ],
    [
      '{agent: fence_virsh, parameters: {ip: 10.0.09.10}}',
      'parameters.ip: must be four numbers from 0 to 255, without zeros before them',
    ],
    [
      '{agent: fence_virsh, parameters: {ip: 10.0.011.10}}',
      'parameters.ip: must be four numbers from 0 to 255, without zeros before them',
    ],
    [
      '{agent: fence_virsh, parameters: {ip: "10.2314"}}',
      'parameters.ip: must be four numbers from 0 to 255, without zeros before them',
    ],
    [
      '{agent: fence_virsh, parameters: {ip: "::ffff:10.0.9.10"}}',
      'parameters.ip: must be four numbers from 0 to 255, without zeros before them',
    ],
    ['{agent: fence_virsh, parameters: {ipaddr: a}}', 'parameters.ipaddr: is the old name of ip; say ip'],
    ['{agent: fence_apc, parameters: {plug: "1,2"}}', 'parameters.plug: one outlet in a method'],
    [
      '{agent: fence_virsh, secrets: {password: ../x}}',
      'secrets.password: must be the name of a file, without /; for example "bmc-password"',
    ],
    ['{agent: fence_virsh, secrets: {password: ".."}}', 'secrets.password: must be the name of a file, without /'],
    ['{agent: fence_virsh, secrets: {password: "{host}"}}', 'secrets.password: unknown placeholder {host}'],
    ['{agent: fence_virsh, secrets: {ip: file}}', 'secrets.ip: chooses the device: write it under parameters'],
    ['{agent: fence_virsh, secrets: {passwd: file}}', 'secrets.passwd: is the old name of password; say password'],
    ['{agent: fence_virsh, secrets: {verbose: file}}', 'secrets.verbose: its output may contain secrets'],
    [
      '{agent: fence_virsh, parameters: {username: a}, secrets: {username: f}}',
      'parameters.username: is under secrets too; remove one of the two',
    ],
    ['{agent: fence_virsh, parametres: {}}', 'parametres: unknown field; did you mean parameters?'],
  ])('%s', (text, sentence) => {
    expect(problems(template(text))).toContainEqual(expect.stringContaining(`: fencing.templates.t.${sentence}`));
  });
  it.each(['', ', proof: power'])('and an agent that is no name, with nothing else said of it%s', (proof) => {
    const { problems, warnings } = load(template(`{agent: ../../bin/sh${proof}}`));
    expect([...problems, ...warnings].map(({ text }) => text)).toEqual([
      'must be the name of a fence agent; for example "fence_redfish"',
    ]);
  });
  it('and nothing of what is right', () => {
    expect(
      problems(
        template('{agent: fence_own, proof: power, parameters: {ip: a, x: "{2}"}, secrets: {password: "k.{node}"}}'),
      ),
    ).toEqual([]);
    for (const ip of ['10.0.9.10', 'fd00::1', '::1', '10.0.9.{node}', '{node}.lan'])
      expect(problems(template(`{agent: fence_virsh, parameters: {ip: "${ip}"}}`))).toEqual([]);
  });
});
