import { describe, expect, it } from 'vitest';
import { type GuardMethods, methodFor } from '../../../src/config/guard/method.ts';
import { planOf } from '../../../src/core/guard/config.ts';
import { effective, load, problems, warnings } from './a-guard-config.ts';

const TEMPLATES = `
  templates:
    bmc: {agent: fence_ipmilan, parameters: {lanplus: "1", username: fencer}, secrets: {password: bmc-password}}
    pdu: {agent: fence_apc_snmp, parameters: {ip: 10.0.3.3}, secrets: {password: pdu}}
    fc: {agent: fence_brocade, parameters: {ip: 10.0.3.2, username: fencer}, secrets: {password: fc}}
    vm: {agent: fence_virsh, parameters: {ip: hv1, username: fencer, plug: "{node}"}, secrets: {password: "{node}.key"}}
`;
const HOST0 =
  '    host0: {power: [[{template: bmc, parameters: {ip: 10.0.9.10}}], [{template: pdu, parameters: {plug: "1"}}]]}';
const fencing = (text: string): string => `dryRun: true\nfencing:${TEMPLATES}${text}\n`;
const plan = (text: string): string => fencing(`  nodes:\n    host0: ${text}`);
const method = (text: string): string => plan(`{power: [[${text}]]}`);
const at = (path: string) =>
  expect.stringMatching(new RegExp(`^g\\.yaml:\\d+:\\d+: ${path.replace(/[.[\]]/g, '\\$&')}: `));

const methodOf = (methods: GuardMethods, name: string, key: string) => methodFor(methods, { name, uid: 'u' }, key);

describe('what is refused: the fields', () => {
  it.each([
    ['', 'dryRun: missing: say true (decide and tell, touch nothing) or false (armed)'],
    ['', 'fencing: missing'],
    ['dryRun:', 'dryRun: missing: say true (decide and tell, touch nothing) or false (armed)'],
    ['dryRun: "false"', 'dryRun: expected true or false, not "false"; write it without quotes'],
    ['dryRun: maybe', 'dryRun: expected true or false, not "maybe"'],
    ['dryrun: true', 'dryrun: unknown field; did you mean dryRun?'],
    [
      'deadAfter: 60s',
      'deadAfter: 60s is too near suspectAfter 40s: at least 30s apart, so that all nodes of one failure are seen before the first is fenced; for example 1m10s',
    ],
    ['suspectAfter: 100s', 'suspectAfter: deadAfter 2m is too near suspectAfter 100s: at least 30s apart'],
    ['suspectAfter: 10s\ndeadAfter: 50s', 'deadAfter: 50s is too short: at least 60s, because Kubernetes itself needs'],
    ['settle: 10s', 'settle: must be at least 30s, not 10s'],
    ['storm: {maxUnhealthy: 0%}', 'storm.maxUnhealthy: must be a percentage above 0%'],
    ['storm: {burst: {nodes: 1}}', 'storm.burst.nodes: must be at least 2, not 1'],
    ['storm: {burst: {within: 19s}}', 'storm.burst.within: must be at least 20s, not 19s'],
    ['storm: {coolDown: 0s}', 'storm.coolDown: must be at least 1m0s, not 0s'],
    ['patrol: {every: 5s}', 'patrol.every: must be at least 1m, or 0 for never, not 5s'],
    ['controlPlane: always', 'controlPlane: must be one of never, oneAtATime, not "always"'],
    ['nodes: {matchExpressions: [{key: a, operator: In}]}', 'nodes.matchExpressions[0]: In needs values'],
    [
      'nodes: {matchExpressions: [{key: a, operator: Exists, values: [x]}]}',
      'nodes.matchExpressions[0].values: Exists takes no values',
    ],
    ['nodes: {matchLabels: {"a b": x}}', 'nodes.matchLabels["a b"]: is no label key'],
    ['domainLabels: ["a/b/c"]', 'domainLabels[0]: is no label key'],
    ['kubernetes: {kubeconfig: config}', 'kubernetes.kubeconfig: must be in-cluster or an absolute path'],
    ['kubernetes: {namespace: A}', 'kubernetes.namespace: is no name of a namespace'],
    ['http: {listen: "0.0.0.0:20260"}', 'http.listen: 0.0.0.0 can be reached from other machines'],
  ])('%s', (text, sentence) => {
    expect(problems(text)).toContainEqual(expect.stringContaining(`: ${sentence}`));
  });
  it('tells the other kind what it is for', () => {
    expect(load('', 'kind: NodewardenConfiguration\n').problems.map(({ text }) => text)).toEqual([
      'must be NodewardenGuardConfiguration; NodewardenConfiguration configures the agent, not the guard',
    ]);
  });
});

describe('an outlet that fence_drac5 reads of a chassis only', () => {
  const blades = (version: string): readonly string[] =>
    problems(`dryRun: true
fencing:
  templates: {t: {agent: fence_drac5, parameters: {ip: 10.0.9.10, username: fencer${version}}}}
  nodes: {h0: {power: [[{template: t, parameters: {plug: server-1}}]]}, h1: {power: [[{template: t, parameters: {plug: server-2}}]]}}
`);
  it.each(['', ', drac_version: DRAC 5', ', drac_version: CMC'])('is refused: "%s"', (version) => {
    expect(blades(version)).toEqual(
      ['h0', 'h1'].map((node) =>
        expect.stringContaining(`nodes.${node}.power[0][0]: plug: the agent reads it only of a chassis`),
      ),
    );
  });
  it.each([', drac_version: DRAC CMC', ', drac_version: DRAC MC'])('is taken: "%s"', (version) => {
    expect(blades(version)).toEqual([]);
  });
});

describe('what is refused: nodes', () => {
  it.each(
    [
      [
        method('{template: bcm}'),
        'nodes.host0.power[0][0].template',
        'must be one of bmc, pdu, fc, vm, not "bcm"; did you mean bmc?',
      ],
      [
        method('{template: fc, parameters: {plug: "1"}}'),
        'nodes.host0.power[0][0]',
        'fence_brocade cuts storage, not power: move it to isolation',
      ],
      [
        plan('{isolation: [{template: pdu, parameters: {plug: "1"}}], power: [[{template: vm}]]}'),
        'nodes.host0.isolation[0]',
        'fence_apc_snmp cuts power, not storage: move it to power',
      ],
      [
        method('{template: bmc, parameters: {ip: 10.0.9.10, plug: "1"}}'),
        'nodes.host0.power[0][0].parameters.plug',
        'the agent ignores it, and operates the machine that its address answers for; remove it',
      ],
      [
        method('{template: bmc}'),
        'nodes.host0.power[0][0]',
        'names no device: it needs ip, plug, or what else the agent knows it by',
      ],
      [
        method('{template: vm}, {template: vm}'),
        'nodes.host0.power[0][1]',
        'vm ip=hv1 plug=host0 is in this level already',
      ],
      [
        method('{template: vm, parameters: {password: x}}'),
        'nodes.host0.power[0][0].parameters.password',
        'is under secrets too; remove one of the two',
      ],
      [
        plan('{power: [[{template: vm}], [{template: vm, parameters: {power_wait: "5"}}]]}'),
        'nodes.host0.power[1][0]',
        'is vm ip=hv1 plug=host0 once more, with other parameters; give it a template of its own',
      ],
      [plan('{power: []}'), 'nodes.host0.power', 'must have at least 1 entry'],
      [plan('{power: [[]]}'), 'nodes.host0.power[0]', 'must have at least 1 entry'],
      [plan('{power: [[]], isolate: []}'), 'nodes.host0.isolate', 'unknown field'],
      [fencing('  nodes: {"w 1": {power: [[{template: vm}]]}}'), 'nodes["w 1"]', 'is no name of a node'],
      [
        fencing('  default: {power: [[{template: pdu, parameters: {plug: "1"}}]]}'),
        'default.power[0][0]',
        'every node that is not listed would have pdu ip=10.0.3.3 plug=1: say {node} in ip or plug',
      ],
      [
        fencing(
          '  default: {power: [[{template: pdu, parameters: {plug: "{node}"}}, {template: pdu, parameters: {plug: "{node}-b"}}]]}',
        ),
        'default.power[0][1]',
        'pdu ip=10.0.3.3 plug={node}-b of one node may be pdu ip=10.0.3.3 plug={node} of another',
      ],
      [fencing('  nodesFile: nodes.yaml'), 'nodesFile', 'must be an absolute path'],
      [fencing('  nodesFile: /none/nodes.yaml'), 'nodesFile', '/none/nodes.yaml does not exist'],
      [fencing('  deadline: 5s'), 'deadline', 'must be at least 10s, not 5s'],
    ].map(([text = '', path = '', sentence = '']) => [path, sentence, text]),
  )('%s: %s', (path, sentence, text) => {
    const found = problems(text).filter((problem) => problem.includes(sentence));
    expect([found, problems(text)]).toEqual([[at(`fencing.${path}`)], expect.anything()]);
  });

  it.each([
    ['{ip: 10.0.9.10}', '{ip: 10.0.9.10}'],
    ['{ip: BMC7.lan}', '{ip: bmc7.lan.}'],
    ['{ip: a, systems_uri: /redfish/v1/Systems/1}', '{ip: a, systems_uri: /redfish/v1//Systems/1/}'],
    ['{ip: "fd00::1"}', '{ip: "fd00:0::01"}'],
    ['{ip: 10.0.9.10}', '{ip: 10.0.9.10, ipport: "623"}'],
    ['{ip: 10.0.9.10, plug: "1"}', '{ip: 10.0.9.10, plug: "01"}'],
    ['{ip: 10.0.9.10, plug: "1"}', '{ip: 10.0.9.10, plug: "1:1"}'],
    ['{ip: 10.0.9.10, plug: "2:1"}', '{ip: 10.0.9.10, plug: "02:01"}'],
    ['{ip: 10.0.9.10}', '{ip: "::ffff:a00:90a"}'],
    ['{ip: "::ffff:0a00:090a"}', '{ip: "::ffff:a00:90a"}'],
    ['{ip: 10.0.9.10, plug: "1"}', '{ip: 10.0.9.10}'],
    ['{ip: 10.0.9.10}', '{ip: 10.0.9.10, plug: "1"}'],
  ])('two nodes with one device: %s and %s', (one, other) => {
    const template = `${one}${other}`.includes('plug') ? 'pdu' : 'bmc';
    const nodes = [one, other].map(
      (parameters, i) => `    h${i}: {power: [[{template: ${template}, parameters: ${parameters}}]]}`,
    );
    expect(problems(fencing(`  nodes:\n${nodes.join('\n')}`))).toEqual([
      expect.stringMatching(
        /: fencing\.nodes\.h1\.power\[0\]\[0\]: h0 and h1 have .*: one of them would power off the other$/,
      ),
    ]);
  });
  it('two nodes with one device, asked by two agents', () => {
    const text = `dryRun: true
fencing:
  templates: {a: {agent: fence_ipmilan}, b: {agent: fence_redfish}}
  nodes:
    h0: {power: [[{template: a, parameters: {ip: x, ipport: "623"}}]]}
    h1: {power: [[{template: b, parameters: {ip: x, ipport: "443"}}]]}`;
    expect(problems(text)).toEqual([
      expect.stringContaining('h0 and h1 have one device, a ip=x ipport=623 and b ip=x ipport=443'),
    ]);
  });
  it.each([
    ['{ip: 10.0.9.10}', '{ip: 10.0.9.11}'],
    ['{ip: x, plug: "1"}', '{ip: x, plug: "2"}'],
    ['{ip: x, plug: "1"}', '{ip: x, plug: "2:1"}'],
    ['{ip: 10.0.9.10}', '{ip: "::a00:90a"}'],
    ['{ip: x, plug: "1", switch: "1"}', '{ip: x, plug: "1", switch: "2"}'],
    ['{ip: x, ipport: "6230"}', '{ip: x, ipport: "6231"}'],
  ])('but not two devices: %s and %s', (one, other) => {
    const template = `${one}${other}`.includes('plug') ? 'pdu' : 'bmc';
    const nodes = [one, other].map(
      (parameters, i) => `    h${i}: {power: [[{template: ${template}, parameters: ${parameters}}]]}`,
    );
    expect(problems(fencing(`  nodes:\n${nodes.join('\n')}`))).toEqual([]);
  });
});

describe('what is warned of', () => {
  it.each([
    ['domainLabels: []', 'domainLabels: without labels all nodes are one failure domain'],
    ['storm: {maxUnhealthy: 51%}', 'storm.maxUnhealthy: above 50% the guard may power off'],
    ['patrol: {every: 0s}', 'patrol.every: without a patrol a machine that is off already is never proven off'],
  ])('%s', (text, sentence) => {
    const all = warnings(`${fencing(`  nodes:\n${HOST0}`)}${text}\n`);
    expect(all.filter((warning) => warning.includes(`: ${sentence}`))).toHaveLength(1);
    expect(warnings(fencing(`  nodes:\n${HOST0}`)).join()).not.toContain(sentence);
  });
  it.each(
    [
      [fencing(''), 'fencing: no node has a method: nothing can be fenced; add nodes or default'],
      [
        method('{template: bmc, parameters: {ip: a}}'),
        "fencing.nodes.host0.power[0][0]: a BMC goes silent with its machine's power supply, and then nothing proves the machine off: host0; add the PDU as second level",
      ],
      [method('{template: vm}'), 'fencing.templates.bmc: is used by no node'],
      [
        fencing(`  deadline: 15s\n  nodes:\n${HOST0}`),
        'fencing.templates.bmc: fence_ipmilan waits 20s for the machine (power_timeout), but is ended after deadline 15s',
      ],
      [
        fencing(
          '  nodes: {host0: {power: [[{template: vm, parameters: {plug: vm-7}}]]}}\n  default: {power: [[{template: vm}]]}',
        ),
        'fencing.nodes.host0.power[0][0]: by default this is the device of a node named vm-7: such a node is never fenced, unless it is listed beside host0',
      ],
      [
        method('{template: vm}'),
        'fencing.templates.bmc: whether fence_ipmilan takes these parameters is unknown: the agent was not asked',
      ],
    ].map(([text = '', sentence = '']) => [sentence, text]),
  )('%s', (sentence, text) => {
    expect(problems(text)).toEqual([]);
    expect(warnings(text)).toContainEqual(expect.stringContaining(`: ${sentence}`));
  });
});

it('does not warn of a node that is listed with a device of its own', () => {
  const text = fencing(`  nodes:
    host0: {power: [[{template: vm, parameters: {plug: vm-7}}]]}
    vm-7: {power: [[{template: vm, parameters: {plug: host0}}]]}
  default: {power: [[{template: vm}]]}`);
  expect(warnings(text).join()).not.toContain('by default');
  expect(planOf(effective(text).core, 'vm-7')?.levels).toEqual([['vm ip=hv1 plug=host0']]);
});

describe('the supplies of one machine', () => {
  const pdu = (plug: string): string => `{template: pdu, parameters: {plug: "${plug}"}}`;
  const bmc = '{template: bmc, parameters: {ip: a}}';
  it.each([
    [`[${pdu('1')}], [${pdu('2')}]`, ['power[0][0]', 'power[1][0]']],
    [`[${bmc}], [${pdu('1')}], [${pdu('1')}, ${pdu('2')}]`, ['power[1][0]']],
  ])('are all in each level that has nothing but outlets: %s', (levels, paths) => {
    const sentence =
      /host0\.(power\S+): proves only one outlet off while the machine may run on pdu ip=10\.0\.3\.3 plug=[12]: put all outlets of a machine into one level$/;
    expect(problems(plan(`{power: [${levels}]}`)).map((problem) => sentence.exec(problem)?.[1])).toEqual(paths);
  });
  it.each([
    `[${bmc}], [${pdu('1')}, ${pdu('2')}]`,
    `[${bmc}, ${pdu('1')}], [${pdu('1')}, ${pdu('2')}]`,
    `[${pdu('1')}]`,
  ])('stand there: %s', (levels) => {
    expect(problems(plan(`{power: [${levels}]}`))).toEqual([]);
  });
});

describe('what is meant', () => {
  const text = fencing(`  nodes:
    host0:
      isolation: [{template: fc, parameters: {plug: "2"}}]
      power: [[{template: bmc, parameters: {ip: 10.0.9.10, username: other}}], [{template: pdu, parameters: {plug: "1"}}]]
  default: {power: [[{template: vm}]]}`);
  it('is a plan for each node, and one for the others', () => {
    const { core } = effective(text);
    expect(planOf(core, 'host0')).toEqual({
      isolation: ['fc ip=10.0.3.2 plug=2'],
      levels: [['bmc ip=10.0.9.10'], ['pdu ip=10.0.3.3 plug=1']],
      ofMachine: ['bmc ip=10.0.9.10'],
    });
    expect(planOf(core, 'w1')).toEqual({ isolation: [], levels: [['vm ip=hv1 plug=w1']] });
  });
  it("is how each method is called, the node's parameters before the template's", () => {
    const { methods } = effective(text);
    expect(methodOf(methods, 'host0', 'bmc ip=10.0.9.10')).toEqual({
      key: 'bmc ip=10.0.9.10',
      agent: 'fence_ipmilan',
      parameters: { lanplus: '1', username: 'other', ip: '10.0.9.10' },
      secrets: { password: 'bmc-password' },
    });
    expect(methodOf(methods, 'w1', 'vm ip=hv1 plug=w1')).toEqual({
      key: 'vm ip=hv1 plug=w1',
      agent: 'fence_virsh',
      parameters: { ip: 'hv1', username: 'fencer', plug: 'w1' },
      secrets: { password: 'w1.key' },
    });
    for (const [node, key] of [
      ['w1', 'vm ip=hv1 plug=w2'],
      ['w1', 'bmc ip=10.0.9.10'],
      ['host0', 'vm ip=hv1 plug=host0'],
      ['__proto__', 'constructor'],
    ] as const) {
      expect(methodOf(methods, node, key)).toBeNull();
    }
  });
  it('does not give a node by default the device of another', () => {
    const { core, methods } = effective(
      fencing(
        '  nodes: {host0: {power: [[{template: vm, parameters: {plug: vm-7}}]]}}\n  default: {power: [[{template: vm}]]}',
      ),
    );
    expect(methodOf(methods, 'vm-7', 'vm ip=hv1 plug=vm-7')).toBeNull();
    expect([planOf(core, 'vm-7'), planOf(core, 'vm-8')]).toEqual([
      null,
      { isolation: [], levels: [['vm ip=hv1 plug=vm-8']] },
    ]);
  });
});
