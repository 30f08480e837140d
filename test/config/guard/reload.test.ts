import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { methodFor } from '../../../src/config/guard/method.ts';
import { needRestart, reloaded, withoutClosed, withoutLess } from '../../../src/config/guard/reload.ts';
import { planOf } from '../../../src/core/guard/config.ts';
import { effective, problems } from './a-guard-config.ts';

const text = (address: string, more = ''): string =>
  `dryRun: true
fencing:
  templates:
    bmc: {agent: fence_redfish, parameters: {username: fencer}, secrets: {password: p}}
    pdu: {agent: fence_apc, parameters: {ip: pdu, username: fencer}, secrets: {password: q}}
  nodes: {host0: {power: [[{template: bmc, parameters: {ip: ${address}}}], [{template: pdu, parameters: {plug: "1"}}]]}}
${more}`;

const HOST0 = { name: 'host0', uid: 'u', bootId: 'b' };

describe('the hash', () => {
  const hash = (more: string): string => effective(text('a', more)).hash;
  it('is the same whatever the order, the file, and what each replica has for itself', () => {
    const [dry, ...rest] = text('a').split('\n');
    expect(effective([...rest, dry].join('\n')).hash).toBe(hash(''));
    expect(hash('socket: /run/other.sock\nlog: {level: debug}\nkubernetes: {kubeconfig: /etc/k}')).toBe(hash(''));
  });
  it('is another with other devices, secrets, limits or records', () => {
    const changes = [
      'deadAfter: 3m',
      'history: {days: 3}',
      'kubernetes: {outOfService: assume}',
      'domainLabels: [rack]',
    ];
    const hashes = [hash(''), ...changes.map(hash), effective(text('b')).hash];
    const secret = effective(text('a').replace('password: p', 'password: r')).hash;
    const armed = effective(text('a').replace('dryRun: true', 'dryRun: false')).hash;
    expect(new Set([...hashes, secret, armed]).size).toBe(8);
  });
});

describe('a reload', () => {
  it('needs a restart for what a running guard holds on to', () => {
    const more = 'socket: /run/other.sock\nhttp: {}\nkubernetes: {namespace: other}\ndeadAfter: 3m\n';
    expect(needRestart(effective(text('a')), effective(text('b', more)))).toEqual(['kubernetes', 'http', 'socket']);
    expect(needRestart(effective(text('a')), effective(text('b', 'deadAfter: 3m')))).toEqual([]);
  });
  it('leaves an open fencing its methods as they were, also after a second one', () => {
    const first = effective(text('a'));
    const plan = planOf(first.core, 'host0');
    const open = plan === null ? [] : [{ node: HOST0, plan }];
    const other = effective(text('b').replace('fence_apc', 'fence_wti'));
    const second = reloaded(first, other, open);
    for (const { methods } of [second, reloaded(second, other, open)]) {
      expect(methodFor(methods, HOST0, 'bmc ip=a')).toEqual(methodFor(first.methods, HOST0, 'bmc ip=a'));
      expect(methodFor(methods, HOST0, 'pdu ip=pdu plug=1')).toMatchObject({ agent: 'fence_apc' });
    }
    expect(planOf(second.core, 'host0')?.levels).toEqual([['bmc ip=b'], ['pdu ip=pdu plug=1']]);
    expect(second.core.outdated).toEqual(['u']);
    expect(reloaded(first, first, open).core.outdated).toEqual([]);
    for (const ended of [withoutClosed(second, []), reloaded(second, other, [])]) {
      expect(methodFor(ended.methods, HOST0, 'pdu ip=pdu plug=1')).toMatchObject({ agent: 'fence_wti' });
      expect(ended.core.outdated).toEqual([]);
    }
    expect(withoutClosed(second, open)).toBe(second);
    const same = reloaded(first, first, open);
    const ended = withoutClosed(same, []);
    expect(ended.methods.kept).toEqual({});
    expect(ended.core).toBe(same.core);
    const closed = reloaded(second, other, []);
    expect(methodFor(closed.methods, HOST0, 'bmc ip=a')).toBeNull();
    expect(methodFor(closed.methods, HOST0, 'pdu ip=pdu plug=1')).toMatchObject({ agent: 'fence_wti' });
  });
  it('leaves each of two open fencings of one name its methods', () => {
    const [first, second, third] = ['a', 'b', 'c'].map((address) => effective(text(address)));
    if (first === undefined || second === undefined || third === undefined) throw new Error();
    const fencing = (uid: string, address: string) => ({
      node: { ...HOST0, uid },
      plan: { isolation: [], levels: [[`bmc ip=${address}`]] },
    });
    const one = reloaded(first, second, [fencing('u', 'a')]);
    const two = reloaded(one, third, [fencing('u', 'a'), fencing('made-anew', 'b')]);
    expect(methodFor(two.methods, HOST0, 'bmc ip=a')).toEqual(methodFor(first.methods, HOST0, 'bmc ip=a'));
    const anew = { name: 'host0', uid: 'made-anew' };
    expect(methodFor(two.methods, anew, 'bmc ip=b')).toEqual(methodFor(second.methods, HOST0, 'bmc ip=b'));
    const left = withoutClosed(two, [fencing('made-anew', 'b')]);
    expect(methodFor(left.methods, HOST0, 'bmc ip=a')).toBeNull();
    expect(methodFor(left.methods, anew, 'bmc ip=b')).not.toBeNull();
  });
});

describe('a reload with fewer devices in a level', () => {
  const powered = (nodes: string, byDefault = ''): string =>
    text('a').replace(/nodes: .*\n/, `nodes: ${nodes}\n${byDefault}`);
  const bmc = (ip: string): string => `{template: bmc, parameters: {ip: ${ip}}}`;
  const both = effective(powered(`{w1: {power: [[${bmc('a')}, ${bmc('b')}]]}}`));
  const one = effective(powered(`{w1: {power: [[${bmc('a')}]]}}`));
  it('fences nobody by it, whoever has the other device by now, until the level is as it was', () => {
    const cut = withoutLess(both.core, one);
    const touched = withoutLess(cut.plans, one);
    for (const { less, effective } of [cut, touched]) {
      expect(less).toEqual(['w1']);
      expect(planOf(effective.core, 'w1')).toBeNull();
      expect(methodFor(effective.methods, { name: 'w1', uid: 'u' }, 'bmc ip=a')).toBeNull();
    }
    const mended = withoutLess(touched.plans, both);
    expect(mended.less).toEqual([]);
    expect(planOf(mended.effective.core, 'w1')?.levels).toEqual([['bmc ip=a', 'bmc ip=b']]);
  });
  it('is another one than with more, other or no devices, or without a level', () => {
    const other = (nodes: string) => effective(powered(nodes));
    const weak = other(`{w1: {power: [[${bmc('a')}, ${bmc('b')}], [${bmc('a')}]]}}`);
    const pairs = [
      [one, both],
      [both, both],
      [weak, weak],
      [weak, both],
      [weak, one],
      [both, other(`{w1: {power: [[${bmc('c')}]]}}`)],
      [both, other('{}')],
    ] as const;
    expect(pairs.flatMap(([before, next]) => withoutLess(before.core, next).less)).toEqual([]);
  });
  it('of the default fences none that it is for', () => {
    const byDefault = (...ips: readonly string[]) =>
      effective(powered('{}', `  default: {power: [[${ips.map(bmc).join(', ')}]]}\n`));
    const cut = withoutLess(byDefault('"{node}-a"', '"{node}-b"').core, byDefault('"{node}-a"'));
    expect(cut).toMatchObject({ less: [], isDefaultLess: true });
    expect(planOf(cut.effective.core, 'w7')).toBeNull();
    expect(planOf(cut.plans, 'w7')?.levels[0]).toHaveLength(2);
  });
});

describe('nodesFile', () => {
  const inFile = (nodes: string, use: (path: string) => void, mode = 0o644): void => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-guard-'));
    try {
      const path = join(directory, 'nodes.yaml');
      writeFileSync(path, nodes);
      chmodSync(path, mode);
      use(path);
    } finally {
      rmSync(directory, { recursive: true });
    }
  };
  const config = (path: string): string => `${text('a')}`.replace('  nodes:', `  nodesFile: ${path}\n  nodes:`);

  it('lists nodes beside those of the file itself', () => {
    inFile('nodes: {host1: {power: [[{template: bmc, parameters: {ip: b}}]]}}\n', (path) => {
      const { core, settings } = effective(config(path));
      expect(planOf(core, 'host1')?.levels).toEqual([['bmc ip=b']]);
      expect(planOf(core, 'host0')?.levels[0]).toEqual(['bmc ip=a']);
      expect(settings.at(-1)).toMatchObject({ path: 'nodes.host1.power', origin: { file: path, line: 1 } });
    });
  });
  it.each([
    [
      'nodes: {host0: {power: [[{template: bmc, parameters: {ip: b}}]]}}\n',
      ':1:9: nodes.host0: is listed in both files',
    ],
    [
      'nodes:\n  host1: {power: [[{template: bmc, parameters: {ip: a}}]]}\n',
      ':2:20: nodes.host1.power[0][0]: host0 and host1 have the same method bmc ip=a: one of them would power off the other',
    ],
    ['node: {}\n', ':1:1: node: unknown field; did you mean nodes?'],
    ['nodes: {\n', 'not valid YAML'],
    ['', ' is empty'],
    [
      'nodes:\n  host1:\n    power:\n      - - template: bmc\n          parameters:\n            ip: 10.0.0.2',
      'has no line end at its end',
    ],
  ])('%j is refused', (nodes, sentence) => {
    inFile(nodes, (path) => expect(problems(config(path))).toContainEqual(expect.stringContaining(sentence)));
  });
  it('may be JSON without a line end, which is none when it is cut off', () => {
    const json = '{"nodes": {"host1": {"power": [[{"template": "bmc", "parameters": {"ip": "b"}}]]}}}';
    inFile(json, (path) => expect(planOf(effective(config(path)).core, 'host1')).not.toBeNull());
    inFile(json.slice(0, -1), (path) => expect(problems(config(path))).not.toEqual([]));
  });
  it('is refused where others may write it', () => {
    inFile(
      'nodes: {}\n',
      (path) => expect(problems(config(path)).join()).toContain('can be written by its group'),
      0o666,
    );
  });
  it('may list thousands of nodes, and is read within seconds', { timeout: 60_000 }, () => {
    const node = (_: unknown, i: number): string =>
      `  n${i}: {power: [[{template: bmc, parameters: {ip: 10.1.${i >> 8}.${i & 255}}}], [{template: pdu, parameters: {plug: "${i + 2}"}}]]}`;
    inFile(`nodes:\n${Array.from({ length: 2_000 }, node).join('\n')}\n`, (path) => {
      expect(Object.keys(effective(config(path)).core.plans)).toHaveLength(2_001);
    });
  });
});
