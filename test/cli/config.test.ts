import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const cwd = fileURLToPath(new URL('../../', import.meta.url));
const HEAD = 'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n';

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-config-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function file(text: string): string {
  const path = join(directory, 'config.yaml');
  writeFileSync(path, HEAD + text, { mode: 0o644 });
  return path;
}

type Ran = { readonly code: number; readonly out: string; readonly err: string };

function nodewarden(...args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const argv = ['--import', 'tsx', 'src/main.ts', 'config', ...args];
    execFile(process.execPath, argv, { cwd, env: { ...process.env, NO_COLOR: '1' } }, (error, out, err) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
      resolve({ code, out: out.replaceAll(`${directory}/`, ''), err: err.replaceAll(`${directory}/`, '') });
    });
  });
}

describe('config check', () => {
  it('reports every mistake on standard error, then their count, and exits with 2', async () => {
    expect(await nodewarden('check', file('evictionHrad: {}\nmode: standalon\n'))).toEqual({
      code: 2,
      out: '',
      err: [
        'config.yaml:3:1: evictionHrad: unknown field; did you mean evictionHard?',
        'config.yaml:4:7: mode: must be one of standalone, kubelet, not "standalon"; did you mean standalone?',
        '2 errors',
        '',
      ].join('\n'),
    });
  });

  it('reports mistakes in the manifests that a valid configuration names, and checks a single manifest', async () => {
    const manifests = join(directory, 'pods.d');
    mkdirSync(manifests, { mode: 0o755 });
    const pod = join(manifests, 'web.yaml');
    const text = (annotation: string) =>
      `apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {nodewarden.dev/${annotation}: web}}\nspec: {containers: [{name: main}]}\n`;
    const config = file(`podManifests: ${manifests}\n`);
    writeFileSync(pod, text('cgruop'), { mode: 0o644 });
    const bad =
      'pods.d/web.yaml:3:37: metadata.annotations["nodewarden.dev/cgruop"]: unknown annotation; did you mean nodewarden.dev/cgroup?';
    const wrong = await nodewarden('check', config);
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.err.split('\n')).toContain(bad);
    expect((await nodewarden('check', pod)).err.split('\n')).toContain(bad);
    writeFileSync(pod, text('cgroup'), { mode: 0o644 });
    expect(await nodewarden('check', pod)).toEqual({ code: 0, out: 'pods.d/web.yaml: valid, 1 pod\n', err: '' });
    expect((await nodewarden('check', config)).out).toContain('pods.d: valid, 1 pod\n');
    chmodSync(manifests, 0o777);
    const open = await nodewarden('check', config);
    expect([open.code, open.err]).toEqual([2, expect.stringContaining('can be written by its group or by others')]);
  });

  it('warns about a scratch directory that would not be emptied, for one manifest and for all', async () => {
    const manifests = join(directory, 'pods.d');
    const shared = join(directory, 'shared');
    for (const path of [manifests, shared]) mkdirSync(path, { recursive: true, mode: 0o755 });
    chmodSync(shared, 0o777);
    const pod = join(manifests, 'web.yaml');
    const text = `apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {nodewarden.dev/cgroup: web, nodewarden.dev/scratch: ${shared}/web}}\nspec: {containers: [{name: a}]}\n`;
    writeFileSync(pod, text, { mode: 0o644 });
    const unsafe = `web would not be emptied: ${basename(shared)} can be written by its group or by others and has no sticky bit`;
    const one = await nodewarden('check', pod);
    expect(one).toMatchObject({ code: 0, out: expect.stringContaining(unsafe) });
    expect(one.out).toMatch(/^warning .*\npods\.d\/web\.yaml: valid, 1 pod\n$/);
    const all = await nodewarden('check', file(`podManifests: ${manifests}\n`));
    expect(all).toMatchObject({ code: 0, out: expect.stringContaining(unsafe) });
  });

  it('warns about a disk directory that is a symbolic link, and says what to write instead', async () => {
    const manifests = join(directory, 'pods.d');
    for (const path of [manifests, join(directory, 'real')]) mkdirSync(path, { recursive: true, mode: 0o755 });
    symlinkSync('real', join(directory, 'link'));
    const pod = join(manifests, 'web.yaml');
    const text = `apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {nodewarden.dev/cgroup: web, nodewarden.dev/disk: ${directory}/link}}\nspec: {containers: [{name: a}]}\n`;
    writeFileSync(pod, text, { mode: 0o644 });
    const linked = /the disk directory \S*link is a symbolic link, .*: name \S*real, where it leads, instead\n/;
    expect(await nodewarden('check', pod)).toMatchObject({ code: 0, out: expect.stringMatching(linked) });
    const all = await nodewarden('check', file(`podManifests: ${manifests}\n`));
    expect(all).toMatchObject({ code: 0, out: expect.stringMatching(linked) });
  });

  it('warns about amounts that are hardly meant, for one manifest and for all', async () => {
    const manifests = join(directory, 'pods.d');
    mkdirSync(manifests, { recursive: true, mode: 0o755 });
    const pod = join(manifests, 'web.yaml');
    const text =
      'apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {nodewarden.dev/cgroup: web}}\nspec: {containers: [{name: a, resources: {requests: {memory: 300m}}}]}\n';
    writeFileSync(pod, text, { mode: 0o644 });
    const said = 'resources.requests.memory: 300m is 0.3 bytes (m is a thousandth); was Mi or Gi meant?\n';
    expect(await nodewarden('check', pod)).toMatchObject({ code: 0, out: expect.stringContaining(said) });
    const all = await nodewarden('check', file(`podManifests: ${manifests}\n`));
    expect(all).toMatchObject({ code: 0, out: expect.stringContaining(said) });
  });

  it('warns about a second manifest of one unit or name, and says which of them is ignored', async () => {
    const manifests = join(directory, 'pods.d');
    mkdirSync(manifests, { recursive: true, mode: 0o755 });
    const manifest = (name: string, priority: number): void =>
      writeFileSync(
        join(manifests, `${name}.yaml`),
        `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}, annotations: {nodewarden.dev/systemd-unit: web.service}}\nspec: {priority: ${priority}, containers: [{name: a}]}\n`,
        { mode: 0o644 },
      );
    manifest('first', 0);
    manifest('second', 10);
    const twin =
      'apiVersion: v1\nkind: Pod\nmetadata: {name: first, annotations: {nodewarden.dev/cgroup: other}}\nspec: {containers: [{name: a}]}\n';
    writeFileSync(join(manifests, 'third.yaml'), twin, { mode: 0o644 });
    const { out } = await nodewarden('check', file(`podManifests: ${manifests}\n`));
    expect(out).toMatch(
      /^warning pods\.d\/third\.yaml:3:\d+: .*: pods\.d\/first\.yaml also defines a pod with the name default\/first: one of the two is ignored; /m,
    );
    expect(out).toMatch(
      /^warning pods\.d\/first\.yaml:3:\d+: .*: unit web\.service is also bound at pods\.d\/second\.yaml:3:\d+: of the two manifests, this one is ignored; remove one of them$/m,
    );
  });

  it('says that a valid one is valid, after its warnings', async () => {
    const { code, out, err } = await nodewarden('check', file('evictionHard: {pid.available: 5%}\n'));
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(
      /^warning config\.yaml:3: evictionHard: naming one signal drops .*\nwarning no manifest in \/etc\/nodewarden\/pods\.d binds a pod: nothing can be evicted\nconfig\.yaml: valid, 2 warnings\n$/,
    );
  });

  it('warns about this machine: paths that do not exist, thresholds that are already met', async () => {
    const text = `podManifests: ${directory}/none\nnodefs: {path: ${directory}/gone}\nevictionHard: {pid.available: 99.999%, memory.available: 1Mi}\n`;
    const { code, out } = await nodewarden('check', file(text));
    expect(code).toBe(0);
    expect(out).toContain(
      'warning config.yaml:3: podManifests: none does not exist on this machine: no pod can be stopped until it does\n',
    );
    expect(out).toContain(
      'warning config.yaml:4: nodefs.path: gone does not exist on this machine: its signals cannot be read until it does\n',
    );
    expect(out).toMatch(
      /^warning config\.yaml:5: evictionHard: pid\.available is already below \d+ pids: \d+ pids of \d+ pids is available now, so the agent would evict at once$/m,
    );
    expect(out).not.toContain('memory.available is below');
  });

  it('warns about a cgroup that does not exist', async () => {
    const { code, out } = await nodewarden('check', file('cgroupRoot: /nodewarden-none\n'));
    expect(code).toBe(0);
    expect(out).toMatch(
      /^warning config\.yaml:3: cgroupRoot: .*\/nodewarden-none does not exist on this machine: memory cannot be read until it does$/m,
    );
  });

  it('warns about valid fields even if there are mistakes, but not about fields that the mistakes may affect', async () => {
    const text = 'evictionHard: {memory.available: 1Mi}\nshutdownGracePeriod: 30s\n';
    const both = await nodewarden('check', file(`${text}log: {level: loud}\n`));
    expect([both.code, both.err.trimEnd().split('\n').at(-1)]).toEqual([2, '1 error']);
    expect(both.out).toContain('warning config.yaml:3: evictionHard: naming one signal drops the defaults');
    expect(both.out).toContain('warning config.yaml:4: shutdownGracePeriod: critical pods get 0 s of it');
    const one = await nodewarden('check', file(`${text}evictionSft: {memory.available: 2Mi}\n`));
    expect(one.out).toBe(`warning ${both.out.split('warning ').at(-1)}`);
  });

  it('warns that run does not start with only a KubeletConfiguration', async () => {
    const path = join(directory, 'kubelet.yaml');
    writeFileSync(path, 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n', { mode: 0o644 });
    const { code, out } = await nodewarden('check', path);
    expect(code).toBe(0);
    expect(out).toContain(
      'warning kubelet.yaml: run does not start with this file alone: mode kubelet needs credentials',
    );
  });

  it('reports the same as JSON', async () => {
    const { code, out } = await nodewarden('check', file('mode: standalon\n'), '-o', 'json');
    expect(code).toBe(2);
    expect(JSON.parse(out)).toMatchObject({
      schema: 1,
      valid: false,
      problems: [{ line: 3, column: 7, path: 'mode' }],
      warnings: [],
    });
  });

  it('exits with 2 for a file that does not exist', async () => {
    const { code, err } = await nodewarden('check', join(directory, 'none.yaml'));
    expect([code, err]).toEqual([2, expect.stringMatching(/^none\.yaml: does not exist; .*\n1 error\n$/)]);
  });
});

describe('config show', () => {
  it('is a table of values with their origins', async () => {
    const { code, out } = await nodewarden('show', file('dryRun: true\nevictionHard: {pid.available: 5%}\n'));
    expect(code).toBe(0);
    const rows = out.split('\n').map((line) => line.split(/ {2,}/));
    expect(rows[0]).toEqual(['FIELD', 'VALUE', 'ORIGIN']);
    expect(rows).toContainEqual(['dryRun', 'true', 'config.yaml:3']);
    expect(rows).toContainEqual(['evictionHard["pid.available"]', '5%', 'config.yaml:4']);
    expect(rows).toContainEqual(['evictionPressureTransitionPeriod', '5m', 'default']);
    const columns = out
      .trimEnd()
      .split('\n')
      .map((line) => line.lastIndexOf('  '));
    expect(new Set(columns).size).toBe(1);
  });

  it('reports the same as JSON', async () => {
    const { settings } = JSON.parse((await nodewarden('show', file('dryRun: true\n'), '-o', 'json')).out);
    expect(settings).toContainEqual({
      path: 'dryRun',
      value: true,
      origin: { kind: 'file', file: join(directory, 'config.yaml').replace(`${directory}/`, ''), line: 3 },
    });
  });

  it('reports mistakes like check', async () => {
    const { code, out, err } = await nodewarden('show', file('dryRun: 1\n'));
    expect([code, out, err.trimEnd().split('\n').at(-1)]).toEqual([2, '', '1 error']);
  });
});

describe('config', () => {
  it('prints the JSON Schema', async () => {
    const { code, out } = await nodewarden('schema');
    expect([code, JSON.parse(out).title]).toEqual([0, 'NodewardenConfiguration']);
  });

  it.each([['check'], ['show'], ['schema']])('%s has help with an example', async (name) => {
    const { code, out } = await nodewarden(name, '--help');
    expect([code, out]).toEqual([0, expect.stringMatching(new RegExp(`Examples?:\n  nodewarden config ${name}`))]);
  });
});
