// The commands that the proof runs. CONTRIBUTING.md and bench/README.md describe each.
import { type Read, readBench, readConformance, readLab, readVitest } from './evidence.ts';

export type Part = {
  readonly argv: readonly string[];
  /** The command is stopped after this time. A quiet machine needs about a third of it. */
  readonly minutes: number;
  readonly isForRoot: boolean;
  readonly read: Read;
};

const npm = (script: string, ...args: readonly string[]): readonly string[] => ['npm', 'run', script, '--', ...args];
const named = (...texts: readonly string[]): readonly string[] => texts.flatMap((text) => ['--only', text]);
const kube = (scene: string): Part => ({
  argv: ['test/lab/kube/shutdown', scene],
  minutes: 20,
  isForRoot: true,
  read: readLab,
});

export const PARTS = {
  reaction: {
    argv: npm('bench:reaction', ...'--runs 20 --few 5 --rates 250,max --curve= --stays 3'.split(' ')),
    minutes: 10,
    isForRoot: true,
    read: readBench('reaction'),
  },
  guest: {
    argv: npm('bench:guest', ...'--runs 5 --few 3 --rates 50'.split(' ')),
    minutes: 15,
    isForRoot: true,
    read: readBench('guest'),
  },
  memory: { argv: npm('lab:memory', ...named('reader')), minutes: 20, isForRoot: true, read: readLab },
  oneKill: { argv: npm('lab:evict', '--here', ...named('D3')), minutes: 10, isForRoot: true, read: readLab },
  hard: { argv: npm('lab:evict', '--here', ...named('D4')), minutes: 3, isForRoot: true, read: readLab },
  soak: {
    argv: npm('bench:soak', '--virtual-hours', '1', '--real-minutes', '2'),
    minutes: 10,
    isForRoot: true,
    read: readBench('soak'),
  },
  conformance: { argv: ['npm', 'run', 'conformance'], minutes: 3, isForRoot: false, read: readConformance },
  armed: {
    argv: npm('lab:shutdown', '--here', ...named('armed is proven', 'sorts after ours', 'cannot be beaten')),
    minutes: 10,
    isForRoot: true,
    read: readLab,
  },
  cordon: {
    argv: ['npx', 'vitest', 'run', 'test/kube/undo-cordon.test.ts', 'test/kube/shutdown.test.ts', '--reporter=json'],
    minutes: 3,
    isForRoot: false,
    read: readVitest,
  },
  kubeUp: kube('up'),
  kubeRestart: kube('restart'),
  kubeAlone: kube('alone'),
} as const satisfies { readonly [name: string]: Part };

export type PartName = keyof typeof PARTS;
export const commandOf = (name: PartName): string =>
  PARTS[name].argv.map((arg) => (/^[\w./:=,-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ');
