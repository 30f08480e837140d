import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { firstsNow } from '../../src/config/kubelet-says.ts';
import { configOf } from '../../src/config/load.ts';
import { UNKNOWN_SIZES } from '../../src/config/margin.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { createClock } from '../../src/host/clock.ts';

const GIB = 1024 ** 3;
const OURS = `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
evictionHard: { memory.available: 600Mi, nodefs.available: 30%, nodefs.inodesFree: 30% }
`;
const OURS_OF_ALL = OURS.replace(' }', ', imagefs.available: 30%, imagefs.inodesFree: 30% }');
const KUBELET = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
const REFUSED = unknown('unreadable', 'configz', 'HTTP status 403');
const capacityOf = (signal: Signal): number => (signal === 'memory.available' ? 8 * GIB : 100 * GIB);

describe('what the kubelet beside the agent reaches first', () => {
  let root: string;
  let ours: string;
  let argv: (args: readonly string[]) => readonly string[];
  beforeEach(() => {
    ours = OURS;
    argv = (args) => ['kubelet', ...args];
    root = mkdtempSync(path.join(tmpdir(), 'nodewarden-kubelet-'));
    mkdirSync(path.join(root, 'kubelet.d'));
  });
  afterEach(() => rmSync(root, { recursive: true }));
  const write = (name: string, hard: string): void => {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), `${KUBELET}${hard === '' ? '' : `evictionHard: ${hard}\n`}`);
  };
  const asked = async (configz: Reading<string>, ...args: readonly string[]): Promise<readonly string[] | string> => {
    const { effective } = configOf(ours, 'config.yaml', UNKNOWN_SIZES);
    if (effective === null) throw new Error('refused');
    const find = async () => known({ argv: argv(args), cwd: root });
    const firsts = await firstsNow({ clock: createClock(), effective, configz: async () => configz, find }, capacityOf);
    return firsts.known ? firsts.value.map(({ signal }) => signal) : `${firsts.where}: ${firsts.detail}`;
  };
  const FILE = ['--config', 'kubelet.yaml'];
  const DROP_INS = ['--config-dir', 'kubelet.d'];
  const DISKS = ['imagefs.available', 'imagefs.inodesFree'];

  it('is in files beside its own, which add to the defaults', async () => {
    write('kubelet.yaml', '');
    write('kubelet.d/10.conf', '{ memory.available: 2Gi }');
    expect(await asked(REFUSED, ...FILE, ...DROP_INS)).toEqual(['memory.available', ...DISKS]);
    write('kubelet.yaml', '{ memory.available: 100Mi }');
    expect(await asked(REFUSED, ...FILE, ...DROP_INS)).toEqual(['memory.available']);
  });

  it('is in such files alone, without the defaults of a file that it does not have', async () => {
    write('kubelet.d/10.conf', '{ memory.available: 2Gi }');
    expect(await asked(REFUSED, ...DROP_INS)).toEqual(['memory.available']);
  });

  it('is on its command line alone if it has no file, without defaults, which only a file is filled in with', async () => {
    expect(await asked(REFUSED)).toEqual([]);
    const soft = ['--eviction-soft', 'memory.available<500Mi', '--eviction-soft-grace-period', 'memory.available=1h'];
    expect(await asked(REFUSED, ...soft)).toEqual([]);
    expect(await asked(REFUSED, '--eviction-hard', 'memory.available<2Gi')).toEqual(['memory.available']);
  });

  it('is in its defaults if its command line cannot be read', async () => {
    argv = () => [];
    expect(await asked(REFUSED)).toEqual(DISKS);
    ours = OURS_OF_ALL;
    expect(await asked(REFUSED)).toBe('configz: HTTP status 403');
  });

  it('is in their subdirectories, in the order in which it walks them', async () => {
    write('kubelet.yaml', '{ memory.available: 100Mi }');
    write('kubelet.d/b/10.conf', '{ memory.available: 2Gi }');
    write('kubelet.d/b/20.conf.yaml', '{ nodefs.available: 90% }');
    expect(await asked(REFUSED, ...FILE, ...DROP_INS)).toEqual(['memory.available']);
    write('kubelet.d/c.conf', '{ memory.available: 50Mi }');
    expect(await asked(REFUSED, ...FILE, ...DROP_INS)).toEqual([]);
    write('kubelet.d/a.conf', '{ memory.available: 3Gi }');
    expect(await asked(REFUSED, ...FILE, ...DROP_INS)).toEqual([]);
  });

  it('counts the defaults if a file asks for them, not if only one beside it does', async () => {
    const merge = `${KUBELET}mergeDefaultEvictionSettings: true\n`;
    write('kubelet.yaml', '{ memory.available: 100Mi }');
    writeFileSync(path.join(root, 'kubelet.d/10.conf'), merge);
    expect(await asked(REFUSED, ...FILE, ...DROP_INS)).toEqual([]);
    writeFileSync(path.join(root, 'kubelet.yaml'), merge);
    expect(await asked(REFUSED, ...FILE)).toEqual(DISKS);
    expect(await asked(REFUSED, ...FILE, '--eviction-hard', 'memory.available<100Mi')).toEqual([]);
  });

  it('is what it says itself, without a default: it has filled them in', async () => {
    write('kubelet.yaml', '{ memory.available: 2Gi }');
    const said = (kubelet: object) => known(JSON.stringify({ kind: 'KubeletConfiguration', ...kubelet }));
    expect(await asked(said({}), ...FILE)).toEqual([]);
    const merged = { mergeDefaultEvictionSettings: true, evictionHard: { 'memory.available': '100Mi' } };
    expect(await asked(said(merged), ...FILE)).toEqual([]);
  });

  it.each([
    {
      what: 'cannot be listed',
      make: () => writeFileSync(path.join(root, 'other'), ''),
      says: /other: ENOTDIR/,
    },
    { what: 'is missing', make: () => undefined, says: /other: / },
    {
      what: 'has very many entries',
      make: () => {
        mkdirSync(path.join(root, 'other'));
        for (let i = 0; i < 1_001; i += 1) writeFileSync(path.join(root, `other/${i}.txt`), '');
      },
      says: /other: more than 1000 entries/,
    },
  ])('is not known if their directory $what', async ({ make, says }) => {
    make();
    write('kubelet.yaml', '{ memory.available: 100Mi }');
    ours = OURS_OF_ALL;
    expect(await asked(REFUSED, ...FILE, '--config-dir', 'other')).toMatch(says);
  });
});
