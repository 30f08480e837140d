import type { ChildProcess } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Variant } from 'dbus-next';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { writeFirst } from '../../src/host/files.ts';
import { type Adoption, adopt } from '../../src/standalone/adopt/adopt.ts';
import { type Adopted, manifestFor, podNameFor, requestFor } from '../../src/standalone/adopt/adopt-manifest.ts';
import { checkManifests } from '../../src/standalone/manifests/check-manifests.ts';
import { parseManifest } from '../../src/standalone/manifests/manifest.ts';
import { aCommand } from '../cli/a-command.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { noHungMount } from '../host/hung-mount.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { mountSlowFileSystem } from '../host/slow-mount.ts';
import { MIB, noCgroups, openTestNode, type TestNode } from '../observe/a-node.ts';

const clock = createClock();

const anAdopted: Adopted = {
  target: { kind: 'unit', unit: 'shop.service' },
  name: 'shop',
  role: 'a service',
  priority: 100,
  priorityFrom: null,
  workingSetBytes: 40 * MIB,
  peakBytes: 60 * MIB,
  requestBytes: requestFor(50 * MIB),
  disk: [],
  scratch: [],
  notes: [],
};

describe('a proposed manifest', () => {
  const adopted = (more: Partial<Adopted>): Adopted => ({ ...anAdopted, ...more });
  const read = (more: Partial<Adopted>) => parseManifest(manifestFor(adopted(more)), 'm.yaml');

  it('passes the check, with the directories that count, and those that would be emptied only as comments', () => {
    const { pods, problems } = read({ disk: ['/var/lib/shop', '/var/log/shop'], scratch: ['/var/cache/shop'] });
    expect(problems).toEqual([]);
    expect(pods[0]).toMatchObject({
      target: { kind: 'unit', unit: 'shop.service' },
      declared: { name: 'shop', priority: 100, requests: { memoryBytes: 64 * MIB } },
      disk: ['/var/lib/shop', '/var/log/shop'],
      scratch: [],
    });
    expect(manifestFor(adopted({ scratch: ['/var/cache/shop'] }))).toContain(
      '# nodewarden.dev/scratch: "/var/cache/shop"',
    );
  });

  it.each([
    'a\nspec: {priority: 9}',
    '"; x: y',
    '../../etc/passwd',
    'a\u2028b',
    '#',
    'ümlaut',
    '-',
    'x'.repeat(300),
    'é/..',
  ])('for the hostile name %j is one pod with a plain name, and nothing else', (name) => {
    const hostile = { name, role: name, notes: [name], priorityFrom: name, disk: [name, `/srv/${name}`, '/srv/ok'] };
    const { pods, problems } = read({ ...hostile, target: { kind: 'podman', name: 'web' } });
    expect(problems).toEqual([]);
    expect(pods).toHaveLength(1);
    expect(pods[0]?.declared).toMatchObject({ name: podNameFor(name), priority: 100 });
    expect(podNameFor(name)).toMatch(/^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$|^[a-z0-9]$/);
    expect(pods[0]?.disk).toContain('/srv/ok');
  });

  it('distinguishes names that differ only in special characters', () => {
    expect(new Set(['a.b', 'a-b', 'a_b', 'A-b'].map(podNameFor)).size).toBe(4);
  });
});

describe('a file that is written first', () => {
  it("is complete and root's, and changes nothing that exists, not even through a link", () => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-adopt-'));
    const path = join(directory, 'a.yaml');
    expect(writeFirst(path, 'one', 0o644).known).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o644);
    expect(writeFirst(path, 'two', 0o644)).toMatchObject({ known: false, detail: 'it exists already' });
    symlinkSync(path, join(directory, 'b.yaml'));
    expect(writeFirst(join(directory, 'b.yaml'), 'two', 0o644).known).toBe(false);
    expect(readFileSync(path, 'utf8')).toBe('one');
    rmSync(directory, { recursive: true });
  });
});

const why = noCgroups ?? (hasDbusDaemon ? null : 'needs dbus-daemon');
describe.skipIf(why !== null)(`adopt [${why ?? 'root, cgroups, dbus-daemon'}]`, () => {
  const command = aCommand();
  let directory: string;
  let node: TestNode;
  let fake: FakeSystemd;
  let children: ChildProcess[];
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-adopt-'));
    chmodSync(directory, 0o755);
    node = await openTestNode(256 * MIB, 200);
    children = [];
    fake = await openFakeSystemd((member, _, body, path) => {
      if (member === 'ListUnitsFiltered') {
        const rows = [...fake.units.keys()].map((name) => [name, '', 'loaded', 'active', '', '', path, 0, '', '/']);
        return { signature: 'a(ssssssouso)', body: [rows] };
      }
      if (
        member !== 'Get' ||
        !['StateDirectory', 'LogsDirectory', 'CacheDirectory', 'DynamicUser'].includes(String(body[1]))
      )
        return null;
      const is = path.includes('db_2eservice');
      const isLinked = path.includes('linked_2eservice') && body[1] !== 'LogsDirectory';
      const names = is ? ['db'] : isLinked ? [`../..${directory}/link`] : [];
      const value = body[1] === 'DynamicUser' ? new Variant('b', is) : new Variant('as', names);
      return { signature: 'v', body: [value] };
    });
  });
  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL');
    await fake.remove();
    await node.remove();
    rmSync(directory, { recursive: true });
  });
  async function unit(name: string, bytes: number, relations = {}): Promise<void> {
    const pod = node.addPod(name);
    if (bytes > 0) children.push(await pod.start(bytes));
    const controlGroup = `${node.path}/${name}`;
    fake.units.set(name, { activeState: 'active', invocation: 1, controlGroup, loadState: 'loaded', relations });
  }
  const needs = () => ({
    clock,
    mounts: node.mounts,
    systemd: fake.systemd,
    cgroupRoot: '/',
    podManifests: directory,
    sampleMs: 0,
    say: () => {},
  });
  async function found(): Promise<Adoption> {
    const adoption = await adopt(needs());
    if (!adoption.known) throw new Error(adoption.detail);
    return adoption.value;
  }

  it('proposes what runs, the largest first, with its observed usage, its directories and what also stops', async () => {
    await unit('db.service', 40 * MIB, { RequiredBy: ['nginx.service'] });
    await unit('cache.service', 20 * MIB, { RequiredBy: ['nginx.service'] });
    await unit('nginx.service', 10 * MIB);
    await unit('empty.service', 0);
    await unit('dbus.service', 5 * MIB);
    const { source, proposals, leftOut } = await found();
    expect(source).toBe('systemd');
    expect(proposals.map(({ name, priority, priorityFrom }) => [name, priority, priorityFrom])).toEqual([
      ['db', 500, 'nginx.service'],
      ['cache', 500, 'nginx.service'],
      ['nginx', 500, null],
    ]);
    const [db] = proposals;
    expect(db?.requestBytes).toBeGreaterThanOrEqual(48 * MIB);
    expect(db?.peakBytes).toBeGreaterThanOrEqual(40 * MIB);
    expect(db).toMatchObject({
      disk: ['/var/lib/private/db', '/var/log/private/db'],
      scratch: ['/var/cache/private/db'],
    });
    expect(leftOut).toEqual([{ name: 'dbus.service', why: 'nodewarden never stops it' }]);
    expect(parseManifest(db?.manifest ?? '', 'm').problems).toEqual([]);
  });

  it('proposes where a symbolic link leads that is the state directory of a unit, and follows none to what would be emptied', async () => {
    mkdirSync(join(directory, 'real'));
    symlinkSync('real', join(directory, 'link'));
    await unit('linked.service', 10 * MIB);
    expect((await found()).proposals).toMatchObject([
      { disk: [join(directory, 'real')], scratch: [`/var/cache/../..${directory}/link`] },
    ]);
  });

  it('leaves out what resets the machine by its end, itself or through a unit that stops with it', async () => {
    await unit('shop.service', 10 * MIB);
    await unit('base.service', 10 * MIB, { RequiredBy: ['shop.service'] });
    Object.assign(fake.units.get('shop.service') ?? {}, { actions: { FailureAction: 'reboot' } });
    const why = 'its end may trigger FailureAction=reboot of shop.service';
    expect(await found()).toMatchObject({
      proposals: [],
      leftOut: [
        { name: 'base', why },
        { name: 'shop', why },
      ],
    });
  });

  it('leaves out what was made by hand, which nothing would start again, but not containers', async () => {
    const container = `docker-${'a'.repeat(64)}.scope`;
    for (const name of ['migrate.service', 'job.scope', container, 'shop.service']) await unit(name, 10 * MIB);
    for (const name of ['migrate.service', 'job.scope', container])
      Object.assign(fake.units.get(name) ?? fail(), { isTransient: true });
    const { proposals, leftOut } = await found();
    expect(proposals.map(({ name }) => name).toSorted()).toEqual([container, 'shop']);
    const why = 'it was started by hand (systemd-run or the like), and nothing would start it again';
    expect(leftOut).toEqual([
      { name: 'job.scope', why },
      { name: 'migrate.service', why },
    ]);
  });

  it('leaves out what a mount needs, or waits for', async () => {
    await unit('store.service', 10 * MIB, { RequiredBy: ['srv-data.mount'] });
    await unit('prepare.service', 10 * MIB, { Before: ['shutdown.target', 'dev-nbd0.swap'] });
    await unit('shop.service', 10 * MIB, { After: ['srv-data.mount'] });
    expect(await found()).toMatchObject({
      proposals: [{ name: 'shop' }],
      leftOut: [
        { name: 'prepare', why: 'files depend on it: dev-nbd0.swap' },
        { name: 'store', why: 'files depend on it: srv-data.mount' },
      ],
    });
  });

  it.skipIf(noHungMount !== null)(
    `leaves out what serves files, whatever its name [${noHungMount ?? 'FUSE'}]`,
    async () => {
      const mounted = join(directory, 'mounted');
      mkdirSync(mounted);
      const { pid, release } = await mountSlowFileSystem(mounted);
      try {
        await unit('media.service', 0);
        await unit('base.service', 10 * MIB, { RequiredBy: ['media.service'] });
        await unit('shop.service', 10 * MIB);
        writeFileSync(join(node.directory, 'media.service', 'cgroup.procs'), String(pid));
        const why = `files depend on it: perl (process ${pid}) has /dev/fuse open`;
        expect(await found()).toMatchObject({
          proposals: [{ name: 'shop' }],
          leftOut: [
            { name: 'base', why: `systemd stops media.service with it: ${why}` },
            { name: 'media', why },
          ],
        });
      } finally {
        release();
      }
    },
  );

  it('leaves out what a manifest already declares, a slice whose units it proposes, and its own unit', async () => {
    await unit('shop.slice', 0);
    await unit('shop.slice/shop.service', 10 * MIB);
    fake.units.set('shop.service', { ...(fake.units.get('shop.slice/shop.service') ?? fail()), id: 'shop.service' });
    fake.units.delete('shop.slice/shop.service');
    expect(await found()).toMatchObject({
      proposals: [{ name: 'shop', target: { unit: 'shop.service' } }],
      leftOut: [{ name: 'shop.slice', why: 'what runs in it is proposed one by one, such as shop' }],
    });
    writeFileSync(join(directory, 'mine.yaml'), (await found()).proposals[0]?.manifest ?? '', { mode: 0o644 });
    expect(await found()).toMatchObject({
      proposals: [],
      leftOut: [{ name: 'shop', why: 'it is declared already, in mine.yaml' }, { name: 'shop.slice' }],
    });
  });

  it('proposes nothing while a manifest has a mistake: what it binds would get a second one', async () => {
    await unit('shop.service', 10 * MIB);
    const mine = manifestFor(anAdopted).replace('annotations:', 'annotations:\n    nodewarden.dev/protect: true');
    writeFileSync(join(directory, 'mine.yaml'), mine, { mode: 0o644 });
    expect(await adopt(needs())).toMatchObject({
      known: false,
      where: expect.stringMatching(/\/mine\.yaml:7:29: .*expected text, not the boolean true/),
      detail: expect.stringContaining('mend it first'),
    });
    writeFileSync(join(directory, 'mine.yaml'), 'apiVersion: [', { mode: 0o644 });
    expect((await adopt(needs())).known).toBe(false);
    rmSync(join(directory, 'mine.yaml'));
    expect(await found()).toMatchObject({ proposals: [{ name: 'shop' }] });
  });

  it('leaves out what is in a slice that a manifest declares', async () => {
    await unit('shop.slice', 0);
    await unit('shop.slice/shop.service', 10 * MIB);
    fake.units.set('shop.service', { ...(fake.units.get('shop.slice/shop.service') ?? fail()), id: 'shop.service' });
    fake.units.delete('shop.slice/shop.service');
    const declared = manifestFor({ ...anAdopted, target: { kind: 'unit', unit: 'shop.slice' } });
    writeFileSync(join(directory, 'slice.yaml'), declared, { mode: 0o644 });
    const path = `${node.path}/shop.slice`;
    expect(await found()).toMatchObject({
      proposals: [],
      leftOut: [
        { name: 'shop', why: `it overlaps with ${path}, which slice.yaml declares` },
        { name: 'shop.slice', why: 'it is declared already, in slice.yaml' },
      ],
    });
  });

  it('leaves out what systemd stops together with a unit of the system, such as the slice that holds it', async () => {
    await unit('infra.slice', 10 * MIB, { RequiredBy: ['inner.slice'] });
    await unit('inner.slice', 0, { RequiredBy: ['ssh.service'] });
    await unit('ssh.service', 10 * MIB);
    await unit('shop.service', 10 * MIB, { RequiredBy: ['docker.service'] });
    const { proposals, leftOut } = await found();
    expect(proposals.map(({ name }) => name)).toEqual(['shop']);
    expect(leftOut).toContainEqual({
      name: 'infra.slice',
      why: 'systemd stops ssh.service with it: you log in through it',
    });
  });

  it('leaves out the slice of the agent, which is another process', async () => {
    await unit('nodewarden.slice', 0);
    await unit('nodewarden.slice/nodewarden.service', 10 * MIB);
    fake.units.set('nodewarden.service', {
      ...(fake.units.get('nodewarden.slice/nodewarden.service') ?? fail()),
      id: 'nodewarden.service',
    });
    fake.units.delete('nodewarden.slice/nodewarden.service');
    expect(await found()).toMatchObject({
      proposals: [],
      leftOut: [
        { name: 'nodewarden.service' },
        { name: 'nodewarden.slice', why: 'it holds nodewarden.service, without which the machine cannot be saved' },
      ],
    });
  });

  it('offers cgroups without systemd, and --write creates files that pass the check', async () => {
    children.push(await node.addPod('batch').start(20 * MIB), await node.addPod('openrc.sshd').start(10 * MIB));
    writeFileSync(
      command.path('adopt.yaml'),
      `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\npodManifests: ${directory}\ncgroupRoot: ${node.path}\n`,
      { mode: 0o644 },
    );
    const config = ['--config', command.path('adopt.yaml')];
    const { out } = await command.run(['adopt', ...config, '--for', '0s', '--write', '-o', 'json']);
    expect(JSON.parse(out)).toMatchObject({
      schema: 1,
      source: 'cgroups',
      proposals: [{ name: 'batch', target: { kind: 'cgroup', path: '/batch' } }],
      leftOut: [{ name: 'openrc.sshd', why: 'you log in through it' }],
      written: [join(directory, 'batch.yaml')],
    });
    expect(checkManifests(directory)).toMatchObject({ pods: [{}], problems: [] });
  });

  it.each([
    ['is no dry run', false, true],
    ['is a dry run', true, true],
    ['goes by other manifests, or by none beside a kubelet', false, false],
  ])('says what the agent does with what is written if it %s', async (_, dryRun, isSame) => {
    children.push(await node.addPod('batch').start(20 * MIB));
    const text = `podManifests: ${directory}\ncgroupRoot: ${node.path}\n`;
    appendFileSync(command.path('config.yaml'), text);
    const config = { podManifests: isSame ? directory : null };
    await command.serve({ answer: () => ({ schema: 1, node: { dryRun }, config }) });
    const args = ['adopt', ...command.config(), '--for', '0s'];
    const isInForce = !dryRun && isSame;
    const before = isInForce ? /set dryRun: true first\.\n$/ : /writes these files to \S+\.\n$/;
    const after = isInForce
      ? /\nThey are in force now: the agent that runs here is no dry run\. /
      : /\nReview them, then: /;
    expect((await command.run(args)).out).toMatch(before);
    expect((await command.run([...args, '--write'])).out).toMatch(after);
  });

  it('says how to create the directory that --write lacks, and refuses a configuration that is not there', async () => {
    children.push(await node.addPod('batch').start(20 * MIB));
    const missing = join(directory, 'none');
    const text = `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\npodManifests: ${missing}\ncgroupRoot: ${node.path}\n`;
    writeFileSync(command.path('adopt.yaml'), text, { mode: 0o644 });
    expect(
      await command.run(['adopt', '--config', command.path('adopt.yaml'), '--for', '0s', '--write']),
    ).toMatchObject({
      code: 1,
      err: `nothing was written: ${missing} does not exist: mkdir -p ${missing}\n`,
    });
    expect((await command.run(['adopt', '--config', command.path('no.yaml')])).code).toBe(2);
  });
});

function fail(): never {
  throw new Error('it was put there');
}
