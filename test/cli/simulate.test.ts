import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
  it('says each look that changed or decided something, and why, then the counts', async () => {
    expect(await nodewarden([at('leak.yaml')])).toEqual({
      code: 0,
      out: [
        'leak  leak.yaml:1',
        '  10s     MemoryPressure is true; evict default/job: memory.available 400 MiB is below 500 MiB; grace 1s; of 2 pods it comes first by using more than its request',
        '  20s     memory.available/hard has recovered',
        '  1m0s    MemoryPressure is false',
        '1 scenario, 4 looks',
        '',
      ].join('\n'),
      err: '',
    });
  });

  it('with --check names every mismatch with its line, and ends with 1', async () => {
    const both = `${LEAK.replace('gracePeriodSeconds: 1', 'gracePeriodSeconds: 30')}---\n${REBOOT}`;
    const { code, out, err } = await nodewarden(['--check', '-'], both);
    expect({ code, err }).toEqual({ code: 1, err: '' });
    expect(out.split('\n').filter((line) => line.startsWith('<stdin>') || line.includes('checked'))).toEqual([
      '<stdin>:23: leak step 2 (at 10s): expect.evicted[0].gracePeriodSeconds: expected 30, got 1',
      '<stdin>:34: reboot: expect.lockReleasedAt: expected 1000, got 15000',
      '2 scenarios, 4 looks, 2 checked, 2 failed',
    ]);
    expect(out).toContain('armed: 20s wanted of logind, a drop-in asks for 20 s\n');
    expect(out).toContain(
      '  0s      to 15s: priority 0, 15 s for default/web; ended by its period; still running default/web\n',
    );
  });

  it('tells what is malformed on standard error, one line each, goes on, and 2 outranks 1', async () => {
    const broken = written('broken.yaml', LEAK.replace('conditions:', 'conditons:').replace('at: 20s', 'at: 5s'));
    const ran = await nodewarden(['--check', broken, at('missing.yaml'), at('wrong.yaml')]);
    expect(ran.code).toBe(2);
    expect(ran.err.split('\n')).toEqual([
      'broken.yaml:20:5: steps[1].expect.conditons: unknown key; did you mean conditions?',
      'broken.yaml:24:8: steps[2].at: must be later than that of the step before',
      'missing.yaml:1:1: does not exist',
      '',
    ]);
    expect(ran.out).toContain('\n1 scenario, 4 looks, 1 checked, 1 failed, 1 malformed\n');
  });

  it('prints JSON lines and one JSON object with the same objects, the same bytes each time', async () => {
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
  ])('--only %s takes the whole name or a label', async (pattern, code, name) => {
    const ran = await nodewarden(['--only', pattern, '-o', 'jsonl', at('leak.yaml')]);
    expect(ran.code).toBe(code);
    expect(ran.out.includes('"name":"leak"')).toBe(name !== null);
    if (name === null) expect(ran.err).toMatch(/^--only matched nothing/);
  });

  it('with --config says what that changes: by pod, time and signal, or nothing', async () => {
    const config = (text: string) =>
      written('other.yaml', `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n${text}`);
    const calm = await nodewarden(['--config', config('evictionHard: {memory.available: 100Mi}\n'), at('leak.yaml')]);
    expect(calm).toMatchObject({ code: 0, err: '' });
    expect(calm.out).toContain('difference in 2 of 4 looks:\n    avoided default/job at 10s (memory.available)\n');
    const same = config('evictionHard: {memory.available: 500Mi}\nevictionPressureTransitionPeriod: 30s\n');
    expect((await nodewarden(['--config', same, at('leak.yaml')])).out).toContain('own configuration: no difference\n');
    const json = await nodewarden(['--config', same, '-o', 'jsonl', at('leak.yaml')]);
    expect(json.out).toMatch(/\],"comparison":\{"avoided":\[\],"added":\[\],"earlier":\[\],"later":\[\]\}\}\n/);
    const bad = await nodewarden(['--config', config('evictionHrad: {}\n'), at('leak.yaml')]);
    expect(bad).toEqual({
      code: 2,
      out: '',
      err: 'other.yaml:3:1: evictionHrad: unknown field; did you mean evictionHard?\n',
    });
    expect((await nodewarden(['--config', same, '--check', at('leak.yaml')])).code).toBe(2);
  });

  it('shows names of tenants harmless, and no bytes of a terminal in a pipe', async () => {
    const ran = await nodewarden([written('evil.yaml', LEAK.replaceAll('name: leak', 'name: "le\\e[31mak\\nx"'))]);
    expect(ran.out).toContain('le\\u001b[31mak\\u000ax  evil.yaml:1\n');
    expect(ran.err).toBe('');
  });

  it('ends quietly when its reader goes away', async () => {
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

  it('refuses bad usage with 2', async () => {
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
