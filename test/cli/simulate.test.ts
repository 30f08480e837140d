import { execFile, execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const cwd = fileURLToPath(new URL('../../', import.meta.url));
const MAIN = ['--import', 'tsx', 'src/main.ts', 'simulate'];

const LEAK = `apiVersion: nodewarden.dev/v1alpha1
kind: EvictionScenario
metadata: {name: leak, labels: {team: shop}}
config:
  evictionHard: {memory.available: 500Mi}
  evictionPressureTransitionPeriod: 30s
pods:
- {metadata: {name: web}, spec: {containers: [{name: main, resources: {requests: {memory: 1Gi}}}]}}
- {metadata: {name: job}, spec: {containers: [{name: main}]}}
steps:
- at: 0
  summary:
    node: {memory: {availableBytes: 2Gi, workingSetBytes: 6Gi}}
    pods:
    - {podRef: {name: web}, memory: {workingSetBytes: 900Mi}}
    - {podRef: {name: job}, memory: {workingSetBytes: 800Mi}}
- at: 10s
  summaryPatch: {node: {memory: {availableBytes: 400Mi}}}
  expect:
    conditions: [MemoryPressure]
    evicted:
    - pod: default/job
      gracePeriodSeconds: 1
- {at: 20s, summaryPatch: {node: {memory: {availableBytes: 3Gi}}}}
- {at: 1m}
`;
const REBOOT = `apiVersion: nodewarden.dev/v1alpha1
kind: ShutdownScenario
metadata: {name: reboot}
config: {shutdownGracePeriod: 20s, shutdownGracePeriodCriticalPods: 5s}
pods:
- {metadata: {name: web}, spec: {containers: [{name: main}]}}
behaviour: {default: {never: true}}
expect: {lockReleasedAt: 1s}
`;

let directory = '';
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-simulate-'));
  written('leak.yaml', LEAK);
  written('wrong.yaml', LEAK.replace('gracePeriodSeconds: 1', 'gracePeriodSeconds: 30'));
});
afterAll(() => rmSync(directory, { recursive: true }));

function written(name: string, content: string | Buffer): string {
  writeFileSync(join(directory, name), content, { mode: 0o644 });
  return join(directory, name);
}

type Ran = { readonly code: number; readonly out: string; readonly err: string };

function nodewarden(args: readonly string[], stdin = ''): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd, env: { ...process.env, NO_COLOR: '1' }, maxBuffer: 64 * 1024 * 1024 };
    const child = execFile(process.execPath, [...MAIN, ...args], options, (error, out, err) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
      const shortened = (text: string): string => text.replaceAll(`${directory}/`, '');
      resolve({ code, out: shortened(out), err: shortened(err) });
    });
    child.stdin?.end(stdin);
  });
}
const at = (name: string): string => join(directory, name);

describe('simulate', () => {
  it('shows each look that changed or decided something, and why, then the counts', async () => {
    expect(await nodewarden([at('leak.yaml')])).toEqual({
      code: 0,
      out: [
        'leak  leak.yaml:1',
        '  10s     MemoryPressure is true; evict default/job: memory.available 400 MiB is below 500 MiB; SIGKILL at once (kubelet: grace 1s); of 2 pods it comes first by using more than its request',
        '  20s     memory.available/hard has recovered',
        '  1m0s    MemoryPressure is false',
        '1 scenario, 4 samples',
        '',
      ].join('\n'),
      err: '',
    });
  });

  it('does not call a threshold recovered while its signal cannot be read, and separates a long time from the text', async () => {
    const memory = 'memory: {availableBytes: 400Mi, workingSetBytes: 7Gi}';
    const { out } = await nodewarden(
      ['-'],
      `apiVersion: nodewarden.dev/v1alpha1
kind: EvictionScenario
metadata: {name: gap}
config:
  evictionHard: {}
  evictionSoft: {memory.available: 500Mi}
  evictionSoftGracePeriod: {memory.available: 30s}
pods: []
steps:
- {at: 0s, summary: {node: {${memory}}, pods: []}}
- {at: 10s, summaryPatch: {node: {memory: null}}}
- {at: 20s}
- {at: 30s, summaryPatch: {node: {${memory}}}}
- {at: 599999, summaryPatch: {node: {memory: {availableBytes: 4Gi}}}}
`,
    );
    expect(out.split('\n').slice(1)).toEqual([
      '  0s      memory.available/soft is crossed, 30s of its grace period left; MemoryPressure is true',
      '  10s     memory.available cannot be read (summary: not there), for 1 sample: no decision is based on it',
      '  9m59.999s memory.available/soft has recovered; MemoryPressure is false',
      '1 scenario, 5 samples',
      '',
    ]);
  });

  it('names every mismatch with its line for --check, and exits with 1', async () => {
    const both = `${LEAK.replace('gracePeriodSeconds: 1', 'gracePeriodSeconds: 30')}---\n${REBOOT}`;
    const { code, out, err } = await nodewarden(['--check', '-'], both);
    expect({ code, err }).toEqual({ code: 1, err: '' });
    expect(out.split('\n').filter((line) => line.startsWith('<stdin>') || line.includes('checked'))).toEqual([
      '<stdin>:23: leak step 2 (at 10s): expect.evicted[0].gracePeriodSeconds: expected 30, got 1',
      '<stdin>:34: reboot: expect.lockReleasedAt: expected 1000, got 15000',
      '2 scenarios, 4 samples, 2 checked, 2 failed',
    ]);
    expect(out).toContain('armed: needs 20s from logind, a drop-in requests 20 s\n');
    expect(out).toContain(
      '  0s      to 15s: priority 0, 15 s for default/web; its time was used up; still running: default/web\n',
    );
  });

  it('evicts nothing for a resource that evict-for leaves out, says why, and refuses an unknown resource', async () => {
    const sparing = (evictFor: string) =>
      LEAK.replaceAll(
        /name: (web|job)}, spec/g,
        `name: $1, annotations: {nodewarden.dev/evict-for: "${evictFor}"}}, spec`,
      );
    const { out } = await nodewarden(['-'], sparing('disk'));
    expect(out).not.toContain('evict default/job: memory.available');
    expect(out).toContain(
      'memory.available: no pod may be evicted; nodewarden.dev/evict-for rules out pods that could otherwise be evicted for memory',
    );
    expect((await nodewarden(['-'], sparing('swap'))).err).toContain(
      '<stdin>:9:66: pods[1].metadata.annotations["nodewarden.dev/evict-for"]: must be none, or some of memory, disk, pids, separated by commas, not "swap"',
    );
  });

  it('reports malformed documents on standard error, one per line, continues, and prefers status 2 over 1', async () => {
    const broken = written('broken.yaml', LEAK.replace('conditions:', 'conditons:').replace('at: 20s', 'at: 5s'));
    const ran = await nodewarden(['--check', broken, at('missing.yaml'), at('wrong.yaml')]);
    expect(ran.code).toBe(2);
    expect(ran.err.split('\n')).toEqual([
      'broken.yaml:20:5: steps[1].expect.conditons: unknown key; did you mean conditions?',
      'broken.yaml:24:8: steps[2].at: must be later than that of the step before',
      'missing.yaml: does not exist',
      '',
    ]);
    expect(ran.out).toContain('\n1 scenario, 4 samples, 1 checked, 1 failed, 1 malformed\n');
  });

  it('prints the same objects as JSON lines and as one JSON object, with the same bytes each time', async () => {
    const lines = await nodewarden(['-o', 'jsonl', at('leak.yaml'), at('leak.yaml')]);
    const again = await nodewarden(['-o', 'jsonl', at('leak.yaml'), at('leak.yaml')]);
    const whole = await nodewarden(['-o', 'json', at('leak.yaml'), at('leak.yaml')]);
    expect(again).toEqual(lines);
    const objects: unknown[] = lines.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(JSON.parse(whole.out)).toEqual({
      scenarios: objects.slice(0, 2),
      summary: { scenarios: 2, steps: 8, checked: 0, failed: 0, malformed: 0 },
    });
    expect(objects[2]).toEqual({ summary: { scenarios: 2, steps: 8, checked: 0, failed: 0, malformed: 0 } });
    expect(Object.keys(Object(objects[0]))).toEqual(['name', 'kind', 'file', 'document', 'line', 'ok', 'steps']);
    const none = await nodewarden(['-o', 'json', at('missing.yaml')]);
    expect(JSON.parse(none.out)).toEqual({ scenarios: [], summary: expect.anything() });
  });

  it.each([
    ['le?k', 0, 'leak'],
    ['team=s*', 0, 'leak'],
    ['lea', 2, null],
    ['team=x', 2, null],
    ['name=leak', 2, null],
  ])('--only %s matches the whole name or a label', async (pattern, code, name) => {
    const ran = await nodewarden(['--only', pattern, '-o', 'jsonl', at('leak.yaml')]);
    expect(ran.code).toBe(code);
    expect(ran.out.includes('"name":"leak"')).toBe(name !== null);
    if (name === null) expect(ran.err).toMatch(/^--only matched nothing/);
  });

  it('shows for --config what it changes: by pod, time and signal, or nothing', async () => {
    const config = (text: string) =>
      written('other.yaml', `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n${text}`);
    const calm = await nodewarden(['--config', config('evictionHard: {memory.available: 100Mi}\n'), at('leak.yaml')]);
    expect(calm).toMatchObject({ code: 0, err: '' });
    expect(calm.out).toContain('\n    avoided default/job at 10s (memory.available)\n');
    const same = config('evictionHard: {memory.available: 500Mi}\nevictionPressureTransitionPeriod: 30s\n');
    expect((await nodewarden(['--config', same, at('leak.yaml')])).out).toContain('own configuration: no difference\n');
    const json = await nodewarden(['--config', same, '-o', 'jsonl', at('leak.yaml')]);
    expect(json.out).toMatch(
      /\],"comparison":\{"avoided":\[\],"added":\[\],"earlier":\[\],"later":\[\],"changedSteps":\[\]\}\}\n/,
    );
    const bad = await nodewarden(['--config', config('evictionHrad: {}\n'), at('leak.yaml')]);
    expect(bad).toEqual({
      code: 2,
      out: '',
      err: 'other.yaml:3:1: evictionHrad: unknown field; did you mean evictionHard?\n',
    });
    expect((await nodewarden(['--config', same, '--check', at('leak.yaml')])).code).toBe(2);
  });

  it('reads another configuration of any owner and mode, through a link or a pipe, or from standard input', async () => {
    const text = 'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nevictionHard: {}\n';
    const open = written('open.yaml', text);
    chmodSync(open, 0o666);
    symlinkSync(open, at('link.yaml'));
    execFileSync('mkfifo', [at('pipe')]);
    const piped = writeFile(at('pipe'), text);
    for (const config of [open, at('link.yaml'), '-', at('pipe')]) {
      const ran = await nodewarden(['--config', config, at('leak.yaml')], text);
      expect(ran).toMatchObject({ code: 0, err: '' });
      expect(ran.out).toContain('avoided default/job at 10s');
    }
    await piped;
    expect(await nodewarden(['--config', at('none.yaml'), at('leak.yaml')])).toEqual({
      code: 2,
      out: '',
      err: 'none.yaml: does not exist\n',
    });
    const endless = await nodewarden(['--config', '/dev/zero', at('leak.yaml')]);
    expect(endless).toEqual({ code: 2, out: '', err: '/dev/zero: cannot be read: larger than 1 MiB\n' });
    expect((await nodewarden(['--config', '-', '-'], text)).err).toBe(
      'standard input cannot be both the configuration and the scenarios\n',
    );
  });

  it("applies the margin of the scenario's node to the thresholds of a kubelet", async () => {
    const kubelet = written(
      'kubelet.yaml',
      'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 300Mi}\n',
    );
    chmodSync(kubelet, 0o664);
    symlinkSync(kubelet, at('kubelet-link.yaml'));
    const beside = written(
      'beside.yaml',
      `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nmode: kubelet\nkubernetes: {kubeconfig: /etc/nodewarden/kubeconfig}\nkubeletConfig: ${at('kubelet-link.yaml')}\n`,
    );
    const ran = await nodewarden(['--config', beside, at('leak.yaml')]);
    expect(ran).toMatchObject({ code: 0, err: '' });
    // 300 MiB and what one process fills in 100 ms.
    expect(ran.out).toContain('evict default/job: memory.available 400 MiB is below 505 MiB');
    // The kubelet's own file says what the kubelet would do.
    expect((await nodewarden(['--config', kubelet, at('leak.yaml')])).out).toContain('avoided default/job at 10s');
  });

  it('says which looks another configuration changes', async () => {
    const other = written(
      'steps.yaml',
      'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nevictionHard: {memory.available: 100Mi}\nguard: {sameOwnerKills: 0}\n',
    );
    expect((await nodewarden(['--config', other, at('leak.yaml')])).out).toContain(
      'difference in 2 of 4 samples:\n    samples 2 to 3 (at 10s to 20s)\n    avoided default/job at 10s (memory.available)\n',
    );
    const json = await nodewarden(['--config', other, '-o', 'jsonl', at('leak.yaml')]);
    expect(json.out).toMatch(/"comparison":\{"avoided":.*"later":\[\],"changedSteps":\[2,3\]\}\}\n/);
  });

  it('says once that no pod may be evicted, and again only after that has changed', async () => {
    const steps = ['400Mi', '390Mi', '380Mi', '3Gi', '300Mi', '290Mi'].map(
      (bytes, i) => `- {at: ${i + 1}s, summary: {node: {memory: {availableBytes: ${bytes}, workingSetBytes: 6Gi}}}}\n`,
    );
    const head = LEAK.slice(0, LEAK.indexOf('pods:'));
    const failed = '- {at: 2500ms, statsFail: true}\n';
    const text = `${head}steps:\n${[...steps.slice(0, 2), failed, ...steps.slice(2)].join('')}`;
    const { out } = await nodewarden([written('nobody.yaml', text)]);
    expect(out.split('\n').filter((line) => line.includes('no pod may'))).toEqual([
      expect.stringMatching(/^ {2}1s /),
      expect.stringMatching(/^ {2}5s /),
    ]);
    expect(out).not.toMatch(/^ {2}(2s|2.5s|3s|6s) /m);
  });

  it('says that no pod is chosen because one that may come first may be empty, and refuses what is neither true nor false', async () => {
    const within = LEAK.replace(
      '{name: job}, spec: {containers: [{name: main}',
      '{name: job}, spec: {containers: [{name: main, resources: {requests: {memory: 1Gi}}}',
    );
    const withFlag = (value: string) => within.replace('900Mi}}', `900Mi}, isMaybeEmpty: ${value}}`);
    const { out } = await nodewarden([written('maybe.yaml', withFlag('true'))]);
    expect(out).toContain(
      'no pod is chosen: default/web may come before default/job, but it is not known whether it has processes',
    );
    expect(out).not.toContain('evict default/');
    const { code, err } = await nodewarden([written('neither.yaml', withFlag('maybe'))]);
    expect([code, err]).toEqual([2, expect.stringContaining('isMaybeEmpty: expected true or false, not "maybe"')]);
  });

  it('says that --only matched nothing besides a malformed document, unless it names that document', async () => {
    const mixed = written('mixed.yaml', `${LEAK}---\nkind: [\n`);
    const none = await nodewarden(['--only', 'lea', mixed]);
    expect(none.code).toBe(2);
    expect(none.err).toContain('--only matched nothing');
    const broken = written('named.yaml', LEAK.replace('at: 20s', 'at: 5s'));
    const named = await nodewarden(['--only', 'leak', broken]);
    expect(named.code).toBe(2);
    expect(named.err).not.toContain('--only');
  });

  it('says when a pod ends that is killed after its phase', async () => {
    const text = REBOOT.replace('{never: true}', '{never: true, terminatingFor: 10s}').replace(
      '{name: web}',
      '{name: web, deletionGracePeriodSeconds: 50}',
    );
    const { out, err } = await nodewarden([written('late.yaml', text)]);
    expect(err).toBe('');
    expect(out).toContain(
      '  40s     default/web: killed at the end of its grace period of 50 s, after its phase; gone 40.1s after the signal\n',
    );
  });

  it("shows tenants' names safely, and no terminal codes in a pipe", async () => {
    const ran = await nodewarden([written('evil.yaml', LEAK.replaceAll('name: leak', 'name: "le\\e[31mak\\nx"'))]);
    expect(ran.out).toContain('le\\u001b[31mak\\u000ax  evil.yaml:1\n');
    expect(ran.err).toBe('');
  });

  it('ends quietly if its reader goes away', async () => {
    const many = written('many.jsonl.gz', gzipSync(`${JSON.stringify(documentOf())}\n`.repeat(3000)));
    const child = spawn(process.execPath, [...MAIN, '-o', 'jsonl', many], { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let err = '';
    child.stderr.on('data', (data: Buffer) => {
      err += data.toString();
    });
    child.stdout.once('data', () => child.stdout.destroy());
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });

  it('refuses a directory without a scenario', async () => {
    mkdirSync(at('empty'));
    const { code, err } = await nodewarden(['--check', at('leak.yaml'), at('empty')]);
    expect(err).toBe(`empty: no scenario file (.yaml, .json, .jsonl) in this directory\n`);
    expect(code).toBe(2);
  });

  it('refuses invalid usage with 2', async () => {
    expect((await nodewarden([])).code).toBe(2);
    expect((await nodewarden(['--only', '', at('leak.yaml')])).code).toBe(2);
    expect((await nodewarden(['-o', 'xml', at('leak.yaml')])).code).toBe(2);
  });
});

function documentOf(): unknown {
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'EvictionScenario',
    metadata: { name: 'one' },
    steps: [{ at: 0, summary: { node: { memory: { availableBytes: 1, workingSetBytes: 2 } } } }],
  };
}
