import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { methodFor } from '../../../src/config/guard/method.ts';
import { needRestart, reloaded, withoutClosed } from '../../../src/config/guard/reload.ts';
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
    const open = plan === null ? [] : [{ node: { name: 'host0', uid: 'u', bootId: 'b' }, plan }];
    const other = effective(text('b').replace('fence_apc', 'fence_wti'));
    const second = reloaded(first, other, open);
    for (const { methods } of [second, reloaded(second, other, open)]) {
      expect(methodFor(methods, 'host0', 'bmc ip=a')).toEqual(methodFor(first.methods, 'host0', 'bmc ip=a'));
      expect(methodFor(methods, 'host0', 'pdu ip=pdu plug=1')).toMatchObject({ agent: 'fence_apc' });
    }
    expect(planOf(second.core, 'host0')?.levels).toEqual([['bmc ip=b'], ['pdu ip=pdu plug=1']]);
    expect(second.core.outdated).toEqual(['host0']);
    expect(reloaded(first, first, open).core.outdated).toEqual([]);
    for (const ended of [withoutClosed(second, []), reloaded(second, other, [])]) {
      expect(methodFor(ended.methods, 'host0', 'pdu ip=pdu plug=1')).toMatchObject({ agent: 'fence_wti' });
      expect(ended.core.outdated).toEqual([]);
    }
    expect(withoutClosed(second, open)).toBe(second);
    const same = reloaded(first, first, open);
    const ended = withoutClosed(same, []);
    expect(ended.methods.kept).toEqual({});
    expect(ended.core).toBe(same.core);
    const closed = reloaded(second, other, []);
    expect(methodFor(closed.methods, 'host0', 'bmc ip=a')).toBeNull();
    expect(methodFor(closed.methods, 'host0', 'pdu ip=pdu plug=1')).toMatchObject({ agent: 'fence_wti' });
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
    inFile('nodes: {host1: {power: [[{template: bmc, parameters: {ip: b}}]]}}', (path) => {
      const { core, settings } = effective(config(path));
      expect(planOf(core, 'host1')?.levels).toEqual([['bmc ip=b']]);
      expect(planOf(core, 'host0')?.levels[0]).toEqual(['bmc ip=a']);
      expect(settings.at(-1)).toMatchObject({ path: 'nodes.host1.power', origin: { file: path, line: 1 } });
    });
  });
  it.each([
    ['nodes: {host0: {power: [[{template: bmc, parameters: {ip: b}}]]}}', ':1:9: nodes.host0: is listed in both files'],
    [
      'nodes:\n  host1: {power: [[{template: bmc, parameters: {ip: a}}]]}',
      ':2:20: nodes.host1.power[0][0]: host0 and host1 have the same method bmc ip=a: one of them would power off the other',
    ],
    ['node: {}', ':1:1: node: unknown field; did you mean nodes?'],
    ['nodes: {', 'not valid YAML'],
    ['', ' is empty'],
  ])('%j is refused', (nodes, sentence) => {
    inFile(nodes, (path) => expect(problems(config(path))).toContainEqual(expect.stringContaining(sentence)));
  });
  it('is refused where others may write it', () => {
    inFile(
      'nodes: {}',
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
