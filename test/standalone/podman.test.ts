import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import type { ExecResult } from '../../src/host/exec.ts';
import type { CommandRunner } from '../../src/host/systemd/transient.ts';
import type { BoundPod, Clock } from '../../src/ports.ts';
import { openStandalone, type Standalone } from '../../src/standalone/open.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { orDbusDaemon, until } from '../host/private-bus.ts';
import { heardParts, placedIn } from './needs.ts';

const clock = createClock();
const why = orDbusDaemon(needsCgroups);
const FINDING = 'binding/default/web';
const [FIRST, SECOND] = ['a'.repeat(64), 'b'.repeat(64)];
const scopeOf = (id: string): string => `libpod-${id}.scope`;

describe.skipIf(why !== '')(`a pod that is a container of Podman ${why}`, () => {
  let directory: string;
  let slice: string;
  let heard: ReturnType<typeof heardParts>;
  let fake: FakeSystemd;
  let standalone: Standalone;
  let made: string[];
  /** What podman says of it as a container, and as a pod. */
  let says: (kind: 'container' | 'pod') => ExecResult;
  let asked: Parameters<CommandRunner>[0][];
  /** Questions wait while it is there. */
  let held: Promise<void> | null;
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-podman-'));
    mkdirSync(join(directory, 'pods.d'));
    slice = `nwtest${process.pid}podman.slice`;
    [asked, made, held] = [[], [], null];
    heard = heardParts();
    says = (kind) => refused(`Error: no such ${kind} web`);
    fake = await openFakeSystemd();
    make(`/${slice}`);
    writeFileSync(
      join(directory, 'pods.d', 'web.yaml'),
      'apiVersion: v1\nkind: Pod\nmetadata: { name: web, annotations: { nodewarden.dev/podman: web } }\nspec: { containers: [{ name: a }] }\n',
    );
  });
  afterEach(async () => {
    await standalone.close();
    await fake.remove();
    for (const path of made.reverse()) rmSync(path, { recursive: true, force: true });
    rmSync(directory, { recursive: true });
  });
  const make = (path: string): (() => void) => {
    const at = `${mounts?.memory}${path}`;
    mkdirSync(at, { recursive: true });
    made.push(at);
    return () => rmdirSync(at);
  };
  const refused = (stderr: string): ExecResult => ({ kind: 'exited', code: 125, stdout: '', stderr });
  const answer = (value: object): ExecResult => ({
    kind: 'exited',
    code: 0,
    stdout: JSON.stringify(value),
    stderr: '',
  });
  const container = (id: string, status: string): ExecResult => {
    const CgroupPath = status === 'running' ? `/${slice}/${scopeOf(id)}` : '';
    return answer({ Id: id, Name: 'web', State: { Status: status, CgroupPath }, HostConfig: { CgroupParent: slice } });
  };
  const open = async (timer: Clock = clock): Promise<void> => {
    if (mounts === null) throw new Error('no cgroups');
    const run: CommandRunner = async (command) => {
      asked.push(command);
      const kind = command.argv[1] === 'pod' ? 'pod' : 'container';
      const said = says(kind);
      await held;
      return said;
    };
    const { systemd } = fake;
    standalone = openStandalone({ ...heard, ...placedIn(directory), clock: timer, mounts, systemd, run });
    await standalone.pods.opened?.();
  };
  const web = (): BoundPod => {
    const pods = standalone.pods.pods();
    const found = pods.known ? pods.value[0] : undefined;
    if (found === undefined) throw new Error('no pod');
    return found;
  };
  const path = (): string | null => {
    const { cgroup } = web();
    return cgroup.known ? cgroup.value.path : null;
  };
  const finding = (): string => heard.present.get(FINDING) ?? '';
  /** As podman does: with a job for the scope, whenever the rule for the signal is in force. */
  const starts = (id: string, isDone: () => boolean): Promise<void> =>
    until(() => {
      fake.begin(scopeOf(id));
      return isDone();
    });

  it('is found by a podman that runs outside of the sandbox, with what it prints in our own directory', async () => {
    says = () => container(FIRST, 'running');
    make(`/${slice}/${scopeOf(FIRST)}`);
    await open();
    await until(() => path() === `/${slice}/${scopeOf(FIRST)}`);
    expect(asked).toEqual([
      expect.objectContaining({
        argv: ['podman', 'container', 'inspect', '--format', expect.stringContaining('CgroupParent'), 'web'],
        printsIn: directory,
        waitsForBus: true,
      }),
    ]);
    expect([finding(), web().isUnlocated]).toEqual(['', undefined]);
  });

  it.each([
    ['an error', refused('Error: opening database: read-only file system'), 'read-only file system'],
    ['no answer', { kind: 'timed-out' } as const, 'no answer within 5 s'],
    ['no podman', { kind: 'exited', code: 127, stdout: '', stderr: "env: 'podman'" } as const, 'is not installed'],
    ['nonsense', answer({ Id: '', Name: 'web' }), 'no container id'],
    ['what it says of another one', answer({ Id: FIRST, Name: 'db' }), 'not the output of podman'],
  ])('may run unseen while podman gives %s, and the finding says what to do', async (_, said, text) => {
    says = () => said;
    await open();
    await until(() => finding() !== '');
    expect(web()).toMatchObject({ isUnlocated: true, cgroup: { known: false } });
    expect(finding()).toMatch(new RegExp(`${text}.*it may run all the same.*podman inspect web`));
  });

  it('does not run if podman knows no such container', async () => {
    await open();
    await until(() => finding() !== '');
    expect(web().isUnlocated).toBeUndefined();
    expect(finding()).toMatch(/knows no container and no pod of this name$/);
  });

  it('is looked for as soon as Podman starts one, which may be it under another id, and may run unseen until then', async () => {
    says = () => container(FIRST, 'running');
    const remove = make(`/${slice}/${scopeOf(FIRST)}`);
    await open();
    await until(() => path() !== null);
    says = () => container(FIRST, 'exited');
    remove();
    expect(web()).toMatchObject({ cgroup: { known: false } });
    await until(() => asked.length === 2);
    expect(web().isUnlocated).toBeUndefined();
    let release = (): void => undefined;
    held = new Promise((resolve) => {
      release = resolve;
    });
    says = () => container(SECOND, 'running');
    make(`/${slice}/${scopeOf(SECOND)}`);
    await starts(SECOND, () => web().isUnlocated === true);
    expect(path()).toBeNull();
    held = null;
    release();
    await until(() => path() === `/${slice}/${scopeOf(SECOND)}`);
    expect(web().isUnlocated).toBeUndefined();
    expect(finding()).toBe('');
  });

  it('is known by its id when it is started again, without a question', async () => {
    says = () => container(FIRST, 'exited');
    await open();
    await until(() => standalone.isSettled());
    held = new Promise(() => undefined);
    make(`/${slice}/${scopeOf(FIRST)}`);
    expect(path()).toBe(`/${slice}/${scopeOf(FIRST)}`);
  });

  it.each([
    ['Running', true],
    ['Exited', undefined],
  ])('has no cgroup as a pod without an infra container (%s), which says what to bind', async (State, isUnlocated) => {
    says = (kind) =>
      kind === 'container'
        ? refused('Error: no such container web')
        : answer({ Id: FIRST, Name: 'web', State, CgroupPath: '', InfraContainerID: '' });
    await open();
    await until(() => finding() !== '');
    expect(finding()).toContain('(--infra=false) no cgroup of its own: bind each of its containers');
    expect(web().isUnlocated).toBe(isUnlocated);
  });

  it('is that of a service if it runs in one, which says what to bind', async () => {
    const CgroupPath = `/system.slice/web.service/libpod-payload-${FIRST}`;
    says = () => answer({ Id: FIRST, Name: 'web', State: { Status: 'running', CgroupPath } });
    await open();
    await until(() => finding() !== '');
    expect(finding()).toContain('belongs to web.service: bind that');
  });
});
