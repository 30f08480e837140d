import { plainName } from './method.ts';

/**
 * What the agents of ClusterLabs' fence-agents can prove (guard.md section 8.4), read in their sources, release 4.12.1.
 * `power`: its off cuts the machine's power, and its status asks the device. `fabric`: it cuts storage or network only.
 * `none`: its word proves nothing, or it cannot work from here.
 */
export type AgentClass = 'power' | 'fabric' | 'none';
/** What holds the switch: `bmc`: a part of the machine itself, which goes silent with the machine's power supply. */
export type DeviceKind = 'bmc' | 'outlet' | 'manager';
export type Agent = {
  readonly agent: string;
  readonly class: AgentClass;
  readonly device: DeviceKind;
  /** Where it answers `status`: line in the agent's own file. 0: it answers none. */
  readonly line: number;
  /** Class `none`: why. Else what its `off` may also mean. */
  readonly note: string | null;
  /** Parameters with which its answers prove nothing, and why. */
  readonly refused: { readonly [parameter: string]: string };
};

type Row = readonly [agent: string, device: DeviceKind, line: number, note?: string | null, refused?: Agent['refused']];

const NOT_ON = 'every answer but "on" is off';
const SUSPENDED = 'a suspended machine is off, though it can resume';
/** All of kind `bmc` list the parameter and never read it: two machines behind one address would be one. */
const NO_OUTLETS = 'the agent ignores it, and operates the machine that its address answers for';

const POWER: readonly Row[] = [
  ['fence_aliyun', 'manager', 89],
  ['fence_alom', 'bmc', 13],
  ['fence_apc', 'outlet', 28],
  ['fence_apc_snmp', 'outlet', 158, NOT_ON],
  ['fence_aws', 'manager', 61],
  [
    'fence_azure_arm',
    'manager',
    52,
    null,
    { network_fencing: 'its answer would come from the state of the network, not of the machine' },
  ],
  ['fence_bladecenter', 'manager', 21],
  ['fence_cdu', 'outlet', 41],
  ['fence_cisco_ucs', 'manager', 21, `a blade that is missing, or another than expected, is off; ${NOT_ON}`],
  ['fence_cyberpower_ssh', 'outlet', 20],
  ['fence_docker', 'manager', 13],
  ['fence_drac', 'manager', 8, null, { plug: NO_OUTLETS }],
  ['fence_drac5', 'manager', 21],
  ['fence_eaton_snmp', 'outlet', 118],
  ['fence_ecloud', 'manager', 78],
  ['fence_emerson', 'outlet', 22, NOT_ON],
  ['fence_eps', 'outlet', 65],
  ['fence_gce', 'manager', 168, null, { baremetalsolution: 'it would answer the opposite of what is asked' }],
  ['fence_hds_cb', 'manager', 20],
  ['fence_hpblade', 'manager', 33],
  ['fence_ibm_powervs', 'manager', 46],
  ['fence_ibm_vpc', 'manager', 39],
  ['fence_ibmblade', 'manager', 24, NOT_ON],
  ['fence_ibmz', 'manager', 383, NOT_ON],
  ['fence_idrac', 'bmc', 10],
  ['fence_ilo', 'bmc', 21],
  ['fence_ilo2', 'bmc', 21],
  ['fence_ilo3', 'bmc', 10],
  ['fence_ilo3_ssh', 'bmc', 9, NOT_ON],
  ['fence_ilo4', 'bmc', 10],
  ['fence_ilo4_ssh', 'bmc', 9, NOT_ON],
  ['fence_ilo5', 'bmc', 10],
  ['fence_ilo5_ssh', 'bmc', 9, NOT_ON],
  ['fence_ilo_moonshot', 'manager', 10],
  ['fence_ilo_mp', 'bmc', 8, NOT_ON],
  ['fence_ilo_ssh', 'bmc', 9, NOT_ON],
  ['fence_imm', 'bmc', 10],
  ['fence_intelmodular', 'manager', 35, NOT_ON],
  ['fence_ipdu', 'outlet', 86, NOT_ON],
  ['fence_ipmilan', 'bmc', 10],
  ['fence_ipmilanplus', 'bmc', 10],
  ['fence_ironic', 'manager', 16],
  ['fence_kubevirt', 'manager', 39, 'a machine without an instance is off'],
  ['fence_ldom', 'manager', 28],
  ['fence_lindypdu', 'outlet', 108],
  ['fence_lpar', 'manager', 30, 'every answer but four that mean running is off'],
  ['fence_netio', 'outlet', 9],
  ['fence_openstack', 'manager', 67],
  ['fence_powerman', 'manager', 159],
  ['fence_pve', 'manager', 19],
  ['fence_raritan', 'outlet', 9],
  ['fence_raritan_px3', 'outlet', 105],
  ['fence_redfish', 'bmc', 23],
  ['fence_rhevm', 'manager', 17, 'an answer without a state is off'],
  ['fence_rsa', 'bmc', 15],
  ['fence_rsb', 'bmc', 8],
  ['fence_tripplite_snmp', 'outlet', 158, NOT_ON],
  ['fence_vbox', 'manager', 43],
  ['fence_virsh', 'manager', 43, `every state that does not mean running is off; ${SUSPENDED}`],
  ['fence_vmware', 'manager', 214, 'VMware Server 1: a machine that it does not know is off'],
  ['fence_vmware_rest', 'manager', 16, SUSPENDED],
  ['fence_vmware_soap', 'manager', 94, NOT_ON],
  ['fence_vmware_vcloud', 'manager', 14, SUSPENDED],
  ['fence_wti', 'outlet', 153],
  ['fence_xenapi', 'manager', 43],
  ['fence_zvmip', 'manager', 66, 'a machine that it does not know is off'],
];

const FABRIC: readonly Row[] = [
  ['fence_brocade', 'manager', 18],
  ['fence_cisco_mds', 'manager', 41],
  ['fence_ifmib', 'manager', 54],
  ['fence_sanbox2', 'manager', 18],
];

const NO_STATUS = 'it has no status';
const LOCAL_DISKS = "it works through the local host's disks, so not from here";

const NONE: readonly Row[] = [
  ['fence_ack_manual', 'manager', 0, 'it asks a person; use nodewarden guard confirm-off'],
  ['fence_amt', 'bmc', 10, 'it calls a sleeping machine off, and sleep ends without a boot'],
  ['fence_compute', 'manager', 19, 'it asks the compute service of OpenStack, not the machine'],
  ['fence_crosslink', 'manager', 31, 'it calls a machine that does not answer a ping off'],
  ['fence_dummy', 'manager', 13, 'it is for tests, and says off when its file is missing'],
  ['fence_evacuate', 'manager', 17, 'it asks the compute service of OpenStack, not the machine'],
  ['fence_heuristics_ping', 'manager', 0, NO_STATUS],
  ['fence_kdump', 'manager', 0, 'it waits for a crash dump, after which the machine starts again'],
  ['fence_mpath', 'manager', 15, LOCAL_DISKS],
  ['fence_ovh', 'manager', 0, NO_STATUS],
  ['fence_rcd_serial', 'outlet', 0, NO_STATUS],
  ['fence_sbd', 'manager', 233, 'it leaves a message for the machine, which must act on it itself'],
  ['fence_scsi', 'manager', 19, LOCAL_DISKS],
  ['fence_skalar', 'manager', 123, 'it calls a machine off whose hypervisor is offline'],
];

const agentOf =
  (kind: AgentClass) =>
  ([agent, device, line, note = null, refused = {}]: Row): Agent => ({
    agent,
    class: kind,
    device,
    line,
    note,
    refused: device === 'bmc' ? { plug: NO_OUTLETS, ...refused } : refused,
  });

export const AGENTS: readonly Agent[] = [
  ...POWER.map(agentOf('power')),
  ...FABRIC.map(agentOf('fabric')),
  ...NONE.map(agentOf('none')),
];
const BY_NAME: ReadonlyMap<string, Agent> = new Map(AGENTS.map((agent) => [agent.agent, agent]));

const NAME = /^fence_[a-z0-9_]{1,50}$/;

/** Whether it is the name of a fence agent, which becomes that of a program. */
export const isAgentName = (name: string): boolean => NAME.test(name);

/** Null: not in the table. */
export function agentNamed(name: string): Agent | null {
  return BY_NAME.get(name) ?? null;
}

/** Parameters that no agent may be given, and why. */
const RESERVED: { readonly [parameter: string]: string } = {
  action: 'the guard says what the agent does',
  nodename: 'another way to say what the agent does it to',
  delay: 'a power-off must begin at once, or it may come after its deadline',
  missing_as_off: 'a machine that the device does not know would count as off',
  help: 'the agent would print its help and do nothing',
  version: 'the agent would print its version and do nothing',
};
/** Those that have a better way, and which. */
const REPLACED: { readonly [parameter: string]: string } = {
  password_script: 'it would run a program; put the password in a file, and name the file under secrets',
  passwd_script: 'it would run a program; put the password in a file, and name the file under secrets',
  snmp_priv_passwd_script: 'it would run a program; put the password in a file, and name the file under secrets',
  plug_separator: 'a method switches one outlet; write one method for each, in one level',
  port_as_ip: 'say ip',
};
const LOUD = 'its output may contain secrets';

/** Why a parameter is refused, and what to do; null: it is not. */
export function refusal(agent: string, parameter: string, value: string): string | null {
  const name = plainName(parameter).toLowerCase();
  if (name === 'method' && value !== 'onoff') return 'must be onoff: other ways leave nothing that could be proven';
  if (Object.hasOwn(REPLACED, name)) return REPLACED[name] ?? null;
  const reasons = { ...RESERVED, ...agentNamed(agent)?.refused };
  if (Object.hasOwn(reasons, name)) return `${reasons[name]}; remove it`;
  return name.startsWith('verbose') || name.includes('debug') ? `${LOUD}; remove it` : null;
}

const WITH_MODULES = ['DRAC CMC', 'DRAC MC'];

/** Why an outlet that is named may not be read; null: it is, or none is named. What it cannot tell, fence_drac5 takes for a DRAC 5. */
export function ignoredOutlet(agent: string, parameters: { readonly [name: string]: string }): string | null {
  const { plug, drac_version: version = '' } = parameters;
  if (agent !== 'fence_drac5' || plug === undefined || WITH_MODULES.includes(version)) return null;
  return `plug: the agent reads it only of a chassis, and else operates the machine that its address answers for; say drac_version: ${WITH_MODULES.join(' or ')}, or remove it`;
}

/** Names of parameters whose value is a secret; paths to files of secrets are none. */
const SECRET = /^(passw(or)?d|snmp_priv_passwd|community|hexadecimal_kg|secret_key|apikey|token)$/;

export function isSecret(parameter: string): boolean {
  return SECRET.test(plainName(parameter).toLowerCase());
}
