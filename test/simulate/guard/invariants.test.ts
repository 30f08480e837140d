import { describe, expect, it } from 'vitest';
import type { GuardConfig } from '../../../src/core/guard/config.ts';
import type { Circumstances } from '../../../src/simulate/guard/circumstances.ts';
import type { Fact } from '../../../src/simulate/guard/facts.ts';
import { INVARIANTS, violationsOf } from '../../../src/simulate/guard/invariants.ts';
import { aScenario } from './a-world.ts';

const { config } = aScenario({ nodes: [{ names: 'w[1-10]', devices: [{ kind: 'bmc' }, { kind: 'pdu' }] }] });
const numbered = (prefix: string, count: number): ReadonlySet<string> =>
  new Set(Array.from({ length: count }, (_, i) => `${prefix}${i + 1}`));
const around: Circumstances = {
  config,
  leaseEveryMs: 10_000,
  workers: { nodes: numbered('w', 10), most: 10 },
  apart: { nodes: numbered('x', 5), most: 5 },
  domains: [{ nodes: new Set(['w1', 'w2', 's1', 's2']), most: 5 }],
  controlPlane: new Set(['m1', 'm2', 'm3']),
  homes: new Map([['g1', 'w9']]),
  untilMs: 3_600_000,
};
const KEY = 'node.kubernetes.io/out-of-service';
const by = { guard: 'g1-1', fencing: 'f1' };

/** Seconds, to be read at a glance. */
const at = (seconds: number): { readonly atMs: number } => ({ atMs: seconds * 1_000 });
const power = (seconds: number, node: string, isOn: boolean, who: typeof by | null): Fact => ({
  kind: 'power',
  ...at(seconds),
  node,
  isOn,
  by: who,
});
const command = (seconds: number, action: 'status' | 'off' | 'on', rest: object = {}): Fact => ({
  kind: 'command',
  ...at(seconds),
  ...by,
  node: 'w1',
  method: 'bmc w1',
  action,
  endMs: seconds * 1_000 + 1_000,
  answer: action === 'status' ? 'off' : 'unknown',
  isLie: false,
  ...rest,
});
const taint = (seconds: number, isAdded: boolean, rest: object = {}): Fact => ({
  kind: isAdded ? 'taint-added' : 'taint-removed',
  ...at(seconds),
  node: 'w1',
  key: KEY,
  value: 'nodewarden.f1',
  by,
  ...rest,
});
const leads = (from: number, to: number, guard = 'g1-1'): readonly Fact[] =>
  Array.from({ length: (to - from) / 2 }, (_, i) => ({
    kind: 'leads' as const,
    ...at(from + i * 2),
    guard,
    sentMs: (from + i * 2) * 1_000,
    isNew: i === 0,
  }));
const pod = (seconds: number, kind: 'pod-started' | 'pod-stopped', node: string, uid: string): Fact => ({
  kind,
  ...at(seconds),
  node,
  pod: 'default/db',
  uid,
});
const freed = (seconds: number, how: 'out-of-service' | 'node-deleted'): Fact => ({
  kind: 'pod-freed',
  ...at(seconds),
  node: 'w1',
  pod: 'default/db',
  uid: 'a',
  by: how,
});
const silent = (since: number, ...nodes: readonly string[]): readonly Fact[] =>
  nodes.map((node) => ({ kind: 'silent', ...at(since + 5), node, sinceMs: since * 1_000 }));
const MANY_WORKERS: readonly Fact[] = [...silent(10, 'x1', 'm1'), ...silent(60, 'w1', 'w2'), ...silent(99, 'w3', 'w4')];
const S3 = { node: 's3' };
const deleted = (seconds: number, node: string): Fact => ({ kind: 'node-deleted', ...at(seconds), node });
const sent: Fact = { kind: 'taint-sent', ...at(120), ...by, node: 'w1' };
const bothMethods = (seconds: number, rest: object = {}): readonly Fact[] => [
  command(seconds, 'status', rest),
  command(seconds, 'status', { method: 'pdu w1', ...rest }),
];
const ON_AFTER_PROOF: readonly Fact[] = [
  ...bothMethods(110),
  ...bothMethods(116),
  power(118, 'w1', true, null),
  sent,
  taint(121, true),
];
/** Both devices say off for the last time at 120; somebody switches it on at 130. */
const switchedOnUnseen = (...leading: readonly Fact[]): readonly Fact[] => [
  ...leading,
  ...silent(10, 'w1'),
  power(90, 'w1', false, by),
  taint(100, true),
  ...bothMethods(110),
  ...bothMethods(120),
  { kind: 'device', ...at(125), node: 'w1', method: 'bmc w1', isSound: false },
  power(130, 'w1', true, null),
];
const decided = (isStormExempt: boolean): Fact =>
  ({ kind: 'decided', ...at(90), ...by, node: 'w1', isDry: false, isStormExempt }) as Fact;

/** It was silent before it was decided on. */
const DEAD: readonly Fact[] = [...leads(0, 140), ...silent(0, 'w1'), decided(false)];
const foreign = (seconds: number, isAdded: boolean): Fact =>
  taint(seconds, isAdded, { value: 'nodeshutdown', by: null });
const api = (seconds: number, mode: 'up' | 'down'): Fact => ({ kind: 'api', ...at(seconds), mode });
const DRY = { dryRun: true };
const ONE_AT_A_TIME = { controlPlane: 'oneAtATime' } as const;

type Case = readonly [what: string, facts: readonly Fact[], config?: Partial<GuardConfig>];
/** By invariant: what breaks it, and what looks like it and does not. */
const CASES: { readonly [name: string]: { readonly broken: readonly Case[]; readonly whole: readonly Case[] } } = {
  'taint-needs-proof': {
    broken: [
      ['no answer at all', [sent]],
      ['one round', [...bothMethods(110), sent]],
      ['two rounds too near to each other', [...bothMethods(110), ...bothMethods(114), sent]],
      ['one of two devices silent', [command(110, 'status'), command(116, 'status'), sent]],
      ['a round before the off returned', [...bothMethods(110), command(112, 'off'), ...bothMethods(116), sent]],
      ['on in between is no off', [...bothMethods(110, { answer: 'on' }), ...bothMethods(116), sent]],
    ],
    whole: [
      ['two rounds of both', [command(100, 'off'), ...bothMethods(110), ...bothMethods(116), sent]],
      ['a person said so', [{ kind: 'confirmed', ...at(100), fencing: 'f1', node: 'w1' }, sent]],
    ],
  },
  'taint-meets-no-running-machine': {
    broken: [
      ['it never was off', [taint(100, true), taint(130, false)]],
      [
        'somebody switched it on after the proof, and nobody noticed',
        [...leads(0, 300), power(90, 'w1', false, by), ...ON_AFTER_PROOF, taint(140, false)],
      ],
      [
        'somebody switched it on before one of the devices was asked for the last time',
        [
          ...leads(0, 300),
          power(90, 'w1', false, by),
          ...bothMethods(112),
          command(117, 'status'),
          power(117, 'w1', true, null),
          command(118, 'status', { method: 'pdu w1' }),
          sent,
          taint(121, true),
          taint(134, false),
        ],
      ],
      [
        'somebody switched it on, and the proof is too old',
        [
          ...leads(0, 300),
          power(80, 'w1', false, by),
          ...bothMethods(94),
          ...bothMethods(100),
          power(102, 'w1', true, null),
          sent,
          taint(121, true),
          taint(134, false),
        ],
      ],
      [
        'the guard itself switches it on',
        [power(90, 'w1', false, by), taint(100, true), power(130, 'w1', true, by), taint(131, false)],
      ],
      [
        'somebody switched it on, and nobody noticed',
        [
          ...leads(0, 300),
          power(90, 'w1', false, null),
          taint(100, true),
          power(130, 'w1', true, null),
          taint(160, false),
        ],
      ],
      [
        'somebody switched it on while its devices were silent, and off was taken for granted for too long',
        [...switchedOnUnseen(...leads(0, 300)), taint(190, false)],
      ],
      [
        'a device lied, the machine showed life, and the taint stayed',
        [
          ...leads(0, 300),
          command(80, 'status', { isLie: true }),
          ...silent(10, 'w1'),
          taint(100, true),
          { kind: 'heard', ...at(130), node: 'w1' },
          taint(160, false),
        ],
      ],
    ],
    whole: [
      [
        'somebody switched it on while its devices were silent, and it was gone once off was not known any more',
        [...switchedOnUnseen(...leads(0, 300)), taint(180, false)],
      ],
      [
        'or the guard that could tell had just begun to lead',
        [...switchedOnUnseen(...leads(0, 120), ...leads(150, 300, 'g1-2')), taint(220, false)],
      ],
      [
        'or a person had confirmed it',
        [
          ...switchedOnUnseen(...leads(0, 300)),
          { kind: 'confirmed', ...at(90), fencing: 'f1', node: 'w1' },
          taint(290, false),
        ],
      ],
      [
        'somebody switched it on after the proof, and it was gone at the next watch',
        [...leads(0, 300), power(90, 'w1', false, by), ...ON_AFTER_PROOF, taint(134, false)],
      ],
      [
        'gone before it is on',
        [power(90, 'w1', false, by), taint(100, true), taint(130, false), power(140, 'w1', true, by)],
      ],
      [
        'somebody switched it on, and it was gone at the next watch',
        [
          ...leads(0, 300),
          power(90, 'w1', false, null),
          taint(100, true),
          power(130, 'w1', true, null),
          taint(143, false),
        ],
      ],
      [
        'somebody switched it on while nobody led',
        [
          ...leads(0, 100),
          power(90, 'w1', false, null),
          taint(100, true),
          power(130, 'w1', true, null),
          taint(190, false),
        ],
      ],
      ['a device lied', [command(80, 'status', { isLie: true }), ...silent(10, 'w1'), taint(100, true)]],
    ],
  },
  'no-pod-twice': {
    broken: [
      ['never freed', [pod(0, 'pod-started', 'w1', 'a'), pod(99, 'pod-started', 'w2', 'b')]],
      [
        'freed by an own taint',
        [
          pod(0, 'pod-started', 'w1', 'a'),
          taint(80, true),
          freed(90, 'out-of-service'),
          pod(99, 'pod-started', 'w2', 'b'),
        ],
      ],
    ],
    whole: [
      [
        'one after the other',
        [pod(0, 'pod-started', 'w1', 'a'), pod(98, 'pod-stopped', 'w1', 'a'), pod(99, 'pod-started', 'w2', 'b')],
      ],
      [
        'a person deleted the Node',
        [pod(0, 'pod-started', 'w1', 'a'), freed(90, 'node-deleted'), pod(99, 'pod-started', 'w2', 'b')],
      ],
      [
        'a person tainted it',
        [
          pod(0, 'pod-started', 'w1', 'a'),
          taint(80, true, { by: null, value: '' }),
          freed(90, 'out-of-service'),
          pod(99, 'pod-started', 'w2', 'b'),
        ],
      ],
    ],
  },
  'one-power-off': {
    broken: [
      [
        'twice, though it was seen off in between',
        [power(90, 'w1', false, by), command(92, 'status'), power(95, 'w1', true, null), power(99, 'w1', false, by)],
      ],
      ['twice, and nobody else switched it on', [power(90, 'w1', false, by), power(99, 'w1', false, by)]],
    ],
    whole: [
      [
        'somebody switched it on at once, which looks like an off without effect',
        [power(90, 'w1', false, by), power(91, 'w1', true, null), power(99, 'w1', false, by)],
      ],
      [
        'once each',
        [power(90, 'w1', false, by), power(95, 'w1', true, by), power(99, 'w1', false, { ...by, fencing: 'f2' })],
      ],
      ['it failed by itself', [power(90, 'w1', false, by), power(95, 'w1', true, null), power(99, 'w1', false, null)]],
    ],
  },
  'no-off-after-on': {
    broken: [['off, on, off', [command(90, 'off'), command(95, 'on'), command(99, 'off')]]],
    whole: [['another fencing', [command(90, 'off'), command(95, 'on'), command(99, 'off', { fencing: 'f2' })]]],
  },
  'one-actor': {
    broken: [['two at once', [command(90, 'off', { endMs: 130_000 }), command(100, 'off', { guard: 'g2-1' })]]],
    whole: [
      ['one after the other', [command(90, 'off'), command(100, 'off', { guard: 'g2-1' })]],
      ['one asks', [command(90, 'off', { endMs: 130_000 }), command(100, 'status', { guard: 'g2-1' })]],
      ['two machines', [command(90, 'off', { endMs: 130_000 }), command(100, 'off', { guard: 'g2-1', node: 'w2' })]],
    ],
  },
  'no-act-without-authority': {
    broken: [
      ['never elected', [command(90, 'off')]],
      ['10 s after the last renewal', [...leads(0, 82), command(90, 'off')]],
      ['another one took over', [...leads(0, 86), ...leads(87, 99, 'g2-1'), command(90, 'on')]],
      ['a taint counts too', [...leads(0, 100), sent]],
    ],
    whole: [['in time', [...leads(0, 82), command(89, 'off')]]],
  },
  'no-foreign-mark-removed': {
    broken: [['a foreign taint', [taint(100, false, { value: 'medik8s' })]]],
    whole: [
      ['its own', [taint(100, false)]],
      ['somebody else removed it', [taint(100, false, { value: 'medik8s', by: null })]],
    ],
  },
  'no-on-under-foreign-taint': {
    broken: [['one that was seen', [...DEAD, foreign(101, true), command(130, 'on')]]],
    whole: [
      ['too late to be seen', [...DEAD, foreign(120, true), command(130, 'on')]],
      ['it was taken back', [...DEAD, foreign(101, true), foreign(125, false), command(130, 'on')]],
      ['its own', [...DEAD, taint(101, true), command(130, 'on')]],
      ['it lived since', [...DEAD, foreign(101, true), { kind: 'heard', ...at(120), node: 'w1' }, command(130, 'on')]],
      ['a Node made anew', [...DEAD, foreign(101, true), deleted(110, 'w1'), command(130, 'on')]],
      ['asked only', [...DEAD, foreign(101, true), command(130, 'status')]],
    ],
  },
  'nothing-fenced-in-a-storm': {
    broken: [
      ['four of ten', [...silent(10, 'w1', 'w2'), ...silent(80, 'w3', 'w4'), command(200, 'off')]],
      ['three at once', [...silent(10, 'w1', 'w2', 'w3'), command(200, 'off')]],
      ['three at once, two of which are in no count', [...silent(10, 'w1', 's3', 'm1'), command(200, 'off')]],
      ['a node in no count, at once with two others', [...silent(10, 'w1', 's3', 'w3'), command(200, 'off', S3)]],
      [
        'three of five of its domain, two of which are in no count',
        [...silent(10, 'w1'), ...silent(60, 's1'), ...silent(99, 's2'), command(200, 'off')],
      ],
      [
        'two of five that are counted apart',
        [...silent(10, 'x1'), ...silent(60, 'x2'), command(200, 'off', { node: 'x1' })],
      ],
      ['one that is counted apart, with too many workers', [...MANY_WORKERS, command(200, 'off', { node: 'x1' })]],
    ],
    whole: [
      [
        'three of ten, one after the other',
        [...silent(10, 'w1'), ...silent(60, 'w2'), ...silent(99, 'w3'), command(200, 'off')],
      ],
      [
        'three of another domain, one after the other',
        [...silent(10, 's3'), ...silent(60, 's1'), ...silent(99, 's2'), command(200, 'off', S3)],
      ],
      [
        'with nodes that are counted apart',
        [...silent(10, 'w1', 'x1'), ...silent(60, 'x2', 'x3'), command(200, 'off')],
      ],
      ['a node of the control plane, with too many workers', [...MANY_WORKERS, command(200, 'off', { node: 'm1' })]],
      [
        'two others were deleted',
        [...silent(10, 'w1', 's1', 's2'), deleted(20, 's1'), deleted(20, 's2'), command(200, 'off')],
      ],
      ['too early to have been seen', [...silent(10, 'w1'), ...silent(150, 'w2', 'w3', 'w4'), command(200, 'off')]],
      ['a person ordered it', [decided(true), ...silent(10, 'w1', 'w2', 'w3', 'w4'), command(200, 'off')]],
      [
        'it began before',
        [...silent(10, 'w1'), command(140, 'off'), ...silent(100, 'w2', 'w3', 'w4'), command(200, 'off')],
      ],
    ],
  },
  'control-plane-one-at-a-time': {
    broken: [
      ['not allowed', [command(200, 'off', { node: 'm1' })]],
      ['another one silent', [...silent(10, 'm1', 'm2'), command(200, 'off', { node: 'm1' })], ONE_AT_A_TIME],
    ],
    whole: [
      ['a worker', [command(200, 'off')]],
      ['one, allowed', [...silent(10, 'm1'), command(200, 'off', { node: 'm1' })], ONE_AT_A_TIME],
    ],
  },
  'nothing-new-while-settling': {
    broken: [
      ['just elected', [...leads(0, 80), ...leads(80, 100), decided(false)]],
      ['the API server just back', [...leads(-100, 100), api(20, 'down'), api(60, 'up'), decided(true)]],
    ],
    whole: [
      ['settled', [...leads(-40, 100), decided(false)]],
      ['before the outage', [...leads(-40, 100), decided(false), api(91, 'down'), api(150, 'up')]],
    ],
  },
  'dry-run-touches-nothing': {
    broken: [
      ['a command', [command(90, 'off')], DRY],
      ['a taint', [sent], DRY],
    ],
    whole: [
      ['asked only', [command(90, 'status')], DRY],
      ['armed', [command(90, 'off')]],
    ],
  },
  'not-its-own-node': {
    broken: [['its own', [command(90, 'off', { node: 'w9' })]]],
    whole: [
      ['asked only', [command(90, 'status', { node: 'w9' })]],
      ["another guard's", [command(90, 'off', { node: 'w9', guard: 'g2-1' })]],
    ],
  },
};

type Row = readonly [name: string, what: string, facts: readonly Fact[], config: Partial<GuardConfig>];
const rows = (of: 'broken' | 'whole'): readonly Row[] =>
  Object.entries(CASES).flatMap(([name, cases]) =>
    cases[of].map(([what, facts, of = {}]) => [name, what, facts, of] as const),
  );
const broken = (facts: readonly Fact[], rest: Partial<GuardConfig>): readonly string[] =>
  violationsOf(facts, { ...around, config: { ...config, ...rest } }).map(({ invariant }) => invariant);

describe('the invariants', () => {
  it('have a planted violation each', () => {
    expect(Object.keys(CASES).toSorted()).toEqual(Object.keys(INVARIANTS).toSorted());
  });
  it.each(rows('broken'))('%s is broken: %s', (name, _, facts, rest) => {
    expect(broken(facts, rest)).toContain(name);
  });
  it.each(rows('whole'))('%s is whole: %s', (name, _, facts, rest) => {
    expect(broken(facts, rest)).not.toContain(name);
  });
});
