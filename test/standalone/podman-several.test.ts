import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { ExecResult } from '../../src/host/exec.ts';
import type { CommandRunner } from '../../src/host/systemd/transient.ts';
import type { BoundPod, Clock } from '../../src/ports.ts';
import { openStandalone, type Standalone } from '../../src/standalone/open.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { orDbusDaemon, until } from '../host/private-bus.ts';
import { byHand, heardParts, placedIn } from './needs.ts';

const clock = createClock();
const why = orDbusDaemon(needsCgroups);
const idOf = (name: string): string => Buffer.from(name).toString('hex').padEnd(64, '0');

describe.skipIf(why !== '')(`pods that are containers of one Podman ${why}`, () => {
  let directory: string;
  let slice: string;
  let heard: ReturnType<typeof heardParts>;
  let fake: FakeSystemd;
  let standalone: Standalone;
  let made: string[];
  /** What Podman has: the state of each container and pod by its name. */
  let containers: Map<string, string>;
  let podmansPods: Map<string, string>;
  /** It fails to inspect this one, and so all that it is asked about along with it. */
  let broken: string;
  /** It inspects no more than one at once. */
  let isOneByOne: boolean;
  let asked: string[];
  /** Until it answers. */
  let takes: () => Promise<void>;
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-podman-'));
    mkdirSync(join(directory, 'pods.d'));
    slice = `nwtest${process.pid}podmans.slice`;
    [asked, made, containers, podmansPods] = [[], [], new Map(), new Map()];
    [broken, isOneByOne] = ['', false];
    takes = async () => undefined;
    heard = heardParts();
    fake = await openFakeSystemd();
  });
  afterEach(async () => {
    await standalone.close();
    await fake.remove();
    for (const path of made.reverse()) rmdirSync(path);
    rmSync(directory, { recursive: true });
  });
  const bind = (...names: readonly string[]): void => {
    for (const name of names)
      writeFileSync(
        join(directory, 'pods.d', `${name}.yaml`),
        `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, annotations: { nodewarden.dev/podman: ${name} } }\nspec: { containers: [{ name: a }] }\n`,
      );
  };
  const runs = (path: string): void => {
    const at = `${mounts?.memory}${path}`;
    mkdirSync(at);
    made.push(at);
  };
  /** As Podman 4.3 answers: those that it finds in their order, then a complaint for each that it does not. */
  const podman = (kind: string, names: readonly string[]): ExecResult => {
    if (isOneByOne && names.length > 1)
      return { kind: 'exited', code: 125, stdout: '', stderr: 'Error: accepts 1 arg(s)\n' };
    if (names.includes(broken))
      return { kind: 'exited', code: 125, stdout: '', stderr: `Error: container ${broken} has no rootfs\n` };
    const known = kind === 'pod' ? podmansPods : containers;
    const said = names.flatMap((name): readonly object[] => {
      const state = known.get(name);
      if (state === undefined) return [];
      const of = { Id: idOf(name), Name: name };
      const CgroupPath = `/${slice}/libpod-${idOf(name)}.scope`;
      return kind === 'pod'
        ? [
            {
              ...of,
              State: state,
              CgroupPath: `/${slice}/${slice.replace('.slice', '-libpod')}_pod_${idOf(name)}.slice`,
            },
          ]
        : [{ ...of, State: { Status: state, CgroupPath: state === 'running' ? CgroupPath : '' } }];
    });
    const missing = names.filter((name) => !known.has(name));
    return {
      kind: 'exited',
      code: missing.length === 0 ? 0 : 125,
      stdout: said.map((one) => `${JSON.stringify(one)}\n`).join(''),
      stderr: missing.map((name) => `Error: inspecting object: no such ${kind} ${name}\n`).join(''),
    };
  };
  const open = async (timer: Clock = clock): Promise<void> => {
    if (mounts === null) throw new Error('no cgroups');
    const run: CommandRunner = async ({ argv }) => {
      const [, kind = '', , , , ...names] = argv;
      asked.push(`${kind}: ${names.join(' ')}`);
      const said = podman(kind, names);
      await takes();
      return said;
    };
    const { systemd } = fake;
    standalone = openStandalone({ ...heard, ...placedIn(directory), clock: timer, mounts, systemd, run });
    await standalone.pods.opened?.();
  };
  const pods = (): readonly BoundPod[] => {
    const found = standalone.pods.pods();
    if (!found.known) throw new Error('no pods');
    return found.value;
  };
  const running = (): readonly string[] =>
    pods().flatMap(({ cgroup, declared }) => (cgroup.known ? [declared.name] : []));
  const unlocated = (): readonly string[] =>
    pods().flatMap(({ isUnlocated, declared }) => (isUnlocated === true ? [declared.name] : []));
  const findings = (): readonly string[] =>
    [...heard.present.keys()].map((id) => id.replace('binding/default/', '')).sort();

  it('are found by one question, also if some are pods of Podman, or do not exist', async () => {
    bind('a', 'b', 'c', 'container', 'd');
    for (const name of ['a', 'd']) containers.set(name, 'running');
    containers.set('b', 'exited');
    podmansPods.set('c', 'Running');
    runs(`/${slice}`);
    for (const name of ['a', 'd']) runs(`/${slice}/libpod-${idOf(name)}.scope`);
    runs(`/${slice}/${slice.replace('.slice', '-libpod')}_pod_${idOf('c')}.slice`);
    await open();
    await until(() => running().length === 3 && findings().length > 0);
    expect(running()).toEqual(['a', 'c', 'd']);
    expect([unlocated(), findings()]).toEqual([[], ['container']]);
    expect(heard.present.get('binding/default/container')).toMatch(/knows no container and no pod of this name$/);
    expect(asked).toEqual(['container: a b c container d', 'pod: c container']);
  });

  it('are asked about alone where one fails, which keeps no other one unknown', async () => {
    bind('a', 'b', 'c');
    for (const name of ['a', 'b', 'c']) containers.set(name, 'exited');
    broken = 'b';
    await open();
    await until(() => findings().length > 0 && unlocated().length === 1);
    expect([unlocated(), findings()]).toEqual([['b'], ['b']]);
    expect(heard.present.get('binding/default/b')).toMatch(/b has no rootfs; it may run all the same/);
  });

  describe('while Podman starts others', () => {
    let hand: ReturnType<typeof byHand>;
    let starts: number;
    const names = Array.from({ length: 40 }, (_, i) => `c${i}`).sort();
    /** What systemd told until now has been heard, and what could be answered is. */
    const heardAll = async (): Promise<void> => {
      await fake.systemd.activeState('any.service');
      await sleep(clock, 0);
    };
    const start = async (): Promise<void> => {
      starts += 1;
      fake.begin(`libpod-${starts.toString(16).padStart(64, 'f')}.scope`);
      await heardAll();
    };
    const pass = async (ms: number): Promise<void> => {
      for (let passedMs = 0; passedMs < ms; passedMs += 100) {
        hand.pass(100);
        await heardAll();
      }
    };
    beforeEach(async () => {
      starts = 0;
      hand = byHand(clock);
      bind(...names);
      for (const name of names) containers.set(name, 'exited');
      await open(hand.clock);
      let isHeard = false;
      fake.systemd.whenJobBegins(() => {
        isHeard = true;
      });
      await until(() => {
        fake.begin('any.service');
        return isHeard && pods().length === names.length;
      });
      await pass(200);
      expect(unlocated()).toEqual([]);
      asked = [];
    });

    it('may run unseen until podman has answered, of which findings tell, and then do not run for a while, whatever is started', async () => {
      let releases: (() => void)[] = [];
      takes = () => new Promise((resolve) => void releases.push(resolve));
      const release = async (): Promise<void> => {
        for (const one of releases) one();
        releases = [];
        await heardAll();
      };
      await start();
      expect([unlocated(), findings()]).toEqual([names, []]);
      await pass(3_500);
      expect([unlocated(), findings()]).toEqual([names, names]);
      expect(heard.present.get('binding/default/c0')).toMatch(/podman has not answered yet; it may run all the same/);
      await start();
      await release();
      await pass(100);
      expect([unlocated(), findings()]).toEqual([[], []]);
      await start();
      await pass(3_700);
      expect(unlocated()).toEqual([]);
      await pass(300);
      expect(unlocated()).toEqual(names);
    });

    it.each([
      ['answers', ''],
      ['fails to inspect one', 'c7'],
    ])('are known most of the time while podman %s, is slow, and is asked no more than it must be', async (_, bad) => {
      broken = bad;
      takes = () => sleep(hand.clock, 600);
      const looks = { all: 0, known: 0 };
      for (let second = 0; second < 40; second++) {
        await start();
        for (let i = 0; i < 10; i++) {
          await pass(100);
          looks.all += 1;
          looks.known += Number(unlocated().every((name) => name === bad));
        }
      }
      expect(looks.known).toBeGreaterThan(looks.all / 2);
      expect(asked.length).toBeLessThan(80);
      expect(findings()).toEqual(bad === '' ? [] : [bad]);
    });

    it('may run unseen anew after a while, also if podman has to be asked about each alone and takes long', async () => {
      takes = () => sleep(hand.clock, 1_000);
      isOneByOne = true;
      await start();
      await pass(5_000);
      expect(unlocated()).not.toContain('c0');
      await start();
      await pass(7_200);
      expect(unlocated()).toContain('c0');
    });
  });
});
