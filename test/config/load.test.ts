import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configOf, loadConfig } from '../../src/config/load.ts';
import { sayOrigin, sayValue } from '../../src/config/setting.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { effective, good, HEAD, KUBELET_HEAD, NO_SIZES, problems, SIZES } from './a-config.ts';

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-config-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text, { mode: 0o644 });
  return path;
}

function said(path: string | null): readonly string[] {
  return loadConfig(path, NO_SIZES).problems.map(sayProblem);
}

describe('mistakes', () => {
  it('are all reported in one pass, in the order of the file, each with what would be valid', () => {
    const text = [
      'evictionHard:',
      '  memory.avialable: 200Mi',
      '  nodefs.available: 10 %',
      '  pid.available: 5',
      '  nodefs.inodesFree: 101%',
      'evictionSoft: {memory.available: 1Gi, imagefs.available: 0%}',
      'evictionSoftGracePeriod: {nodefs.available: 5 s, pid.available: -1s}',
      'evictionMinimumReclaim: {memory.available: 0%, pid.available: -1}',
      'evictionMaxPodGracePeriod: "60"',
      'evictionhard: {}',
      'mode: kubelet',
      'dryRun: yes',
      'guard: {window: 5 m}',
      'reclaimCommands: [{signal: pid.available, command: [rm, -rf]}]',
      'http: {listen: "0.0.0.0:80"}',
      'monitoringInterval: {min: 20s, cpu: 200%}',
      'socket: run',
      'shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -5}]',
    ].join('\n');
    expect(problems(text)).toEqual([
      'c.yaml:4:3: evictionHard["memory.avialable"]: unknown signal; did you mean memory.available?',
      'c.yaml:5:21: evictionHard["nodefs.available"]: strconv.ParseFloat: parsing "10 ": invalid syntax; for example "10%"',
      'c.yaml:6:18: evictionHard["pid.available"]: expected text, not the number 5; for example "10%"',
      'c.yaml:7:22: evictionHard["nodefs.inodesFree"]: eviction percentage threshold nodefs.inodesFree must be <= 100%: 101%',
      'c.yaml:8:34: evictionSoft["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; add it to evictionSoftGracePeriod, for example "1m30s"',
      'c.yaml:9:45: evictionSoftGracePeriod["nodefs.available"]: time: unknown unit " s" in duration "5 s"; for example "1m30s"',
      'c.yaml:9:65: evictionSoftGracePeriod["pid.available"]: invalid eviction grace period specified: -1s, must be a positive value',
      'c.yaml:10:44: evictionMinimumReclaim["memory.available"]: eviction percentage minimum reclaim memory.available must be positive: 0%',
      'c.yaml:10:63: evictionMinimumReclaim["pid.available"]: expected text, not the number -1; for example "5%"',
      'c.yaml:11:28: evictionMaxPodGracePeriod: expected a number, not "60"; for example 60',
      'c.yaml:12:1: evictionhard: unknown field; did you mean evictionHard?',
      'c.yaml:13:7: mode: mode kubelet needs kubernetes.kubeconfig; for example "/etc/nodewarden/kubeconfig"',
      'c.yaml:14:9: dryRun: yes is text here but a boolean to other parsers: write true, or quote it ("yes")',
      'c.yaml:15:17: guard.window: time: unknown unit " m" in duration "5 m"; for example "10m"',
      'c.yaml:16:28: reclaimCommands[0].signal: must be one of nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, not "pid.available"',
      'c.yaml:16:52: reclaimCommands[0].command: the program must be an absolute path; for example ["/usr/local/bin/clean","--all"]',
      'c.yaml:17:16: http.listen: 0.0.0.0 can be reached from other machines; set allowRemote: true if that is intended, or listen on 127.0.0.1',
      'c.yaml:18:21: monitoringInterval: min must not be more than max',
      'c.yaml:18:37: monitoringInterval.cpu: must be a percentage above 0% and up to 100%, not "200%"; for example "1%"',
      'c.yaml:19:9: socket: must be an absolute path; for example "/run/nodewarden/nodewarden.sock"',
      'c.yaml:20:78: shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: must not be negative, it is -5',
    ]);
  });

  it.each([
    [
      '',
      'x.yaml:1:1: empty; it needs apiVersion: nodewarden.dev/v1alpha1 with kind: NodewardenConfiguration, or apiVersion: kubelet.config.k8s.io/v1beta1 with kind: KubeletConfiguration',
    ],
    ['[]', 'x.yaml:1:1: expected a mapping; it needs'],
    ['kind: Pod', 'x.yaml:1:7: kind: must be NodewardenConfiguration or KubeletConfiguration'],
    ['apiVersion: v1', 'x.yaml:1:1: kind: missing; it needs'],
    ['kind: NodewardenConfiguration', 'x.yaml:1:1: apiVersion: missing; must be nodewarden.dev/v1alpha1'],
    [`${HEAD}---\na: 1`, 'x.yaml:4:1: a second document; only one is read'],
  ])('in the head of %j are reported', (text, start) => {
    const [first] = configOf(text, 'x.yaml', NO_SIZES).problems.map(sayProblem);
    expect(first?.startsWith(start), first).toBe(true);
  });

  it.each([
    ['shutdownGracePeriod: 500ms', 'must be 0s or at least 1s; for example "30s"'],
    ['shutdownGracePeriodCriticalPods: 10s', 'must not be more than shutdownGracePeriod'],
    ['shutdownGracePeriod: 30s\nshutdownGracePeriodByPodPriority: [{priority: 0}]', 'cannot be set together with'],
    ['socket: /x/../y', 'must not contain ..'],
    ['stateDirectory: /proc/nodewarden', 'must not be in /proc or /sys'],
    ['runtimeDirectory: /.//sys', 'must not be in /proc or /sys'],
    ['runtimeDirectory: /run', 'must be a directory of its own, not /run; for example "/run/nodewarden"'],
    ['stateDirectory: //tmp/', 'must be a directory of its own, not //tmp/'],
    ['stateDirectory: /', 'must be a directory of its own'],
    ['http: {listen: "127.0.0.1"}', 'expected address:port, not "127.0.0.1"; for example "127.0.0.1:20259"'],
    ['kubernetes: {}', 'missing; for example "/etc/nodewarden/kubeconfig"'],
    ['systemReserved: {memory: -1Gi}', 'must not be negative, it is -1Gi'],
    ['evictionPressureTransitionPeriod:', 'expected text, not empty'],
    ['preKill: {command: [/bin/true], timeout: 1m}', 'must be at most 5s'],
    ['preKill: {command: []}', 'the program must be an absolute path'],
  ])('in %s are reported', (text, part) => {
    expect(problems(text).join('\n')).toContain(part);
  });
});

describe('http', () => {
  it('is reachable from other machines only if that is allowed', () => {
    expect(effective('http: {listen: "[::]:80", allowRemote: true, hosts: [a.example]}').http).toEqual({
      host: '::',
      port: 80,
      allowRemote: true,
      hosts: ['a.example'],
    });
    expect(effective('http: {listen: "[::1]:80"}').http?.host).toBe('::1');
  });
});

describe('files', () => {
  it('must exist if they were named', () => {
    const path = join(directory, 'none.yaml');
    expect(said(path)).toEqual([`${path}: does not exist; name another file, or omit it to use the defaults`]);
  });

  it('are refused if others can write them, and if they are links', () => {
    const path = file('c.yaml', HEAD);
    expect(said(path)).toEqual([]);
    chmodSync(path, 0o666);
    expect(said(path)).toEqual([
      `${path}: refused: ${path} can be written by its group or by others (chmod go-w ${path})`,
    ]);
    chmodSync(directory, 0o777);
    expect(said(directory)).toEqual([`${directory}: cannot be read: not a regular file`]);
    chmodSync(directory, 0o700);
    const link = join(directory, 'link.yaml');
    symlinkSync(file('d.yaml', HEAD), link);
    expect(said(link)).toEqual([expect.stringContaining('refused: ')]);
  });

  it('are refused if they are directories or too large', () => {
    expect(said(directory)).toEqual([expect.stringContaining('cannot be read')]);
    expect(said(file('big.yaml', `${HEAD}#${'x'.repeat(1024 * 1024)}`))).toEqual([
      expect.stringContaining('larger than'),
    ]);
  });
});

describe('defaults', () => {
  it('of evictionHard are dropped if one is named, unless they are to be merged', () => {
    const signals = (text: string) => effective(text).thresholds.map(({ signal }) => signal);
    const named = 'evictionHard: {memory.available: 200Mi, nodefs.available: 0%}';
    expect(signals('')).toHaveLength(5);
    expect(signals(named)).toEqual(['memory.available']);
    expect(signals(`mergeDefaultEvictionSettings: true\n${named}`)).toEqual([
      'memory.available',
      'nodefs.inodesFree',
      'imagefs.available',
      'imagefs.inodesFree',
    ]);
  });

  it('apply to an empty section, and to a section with some fields', () => {
    const all = effective('http:\nlog:\nguard: {window: 5m}');
    expect([all.http, all.logLevel, all.guard]).toEqual([null, 'info', { sameOwnerKills: 3, windowMs: 300_000 }]);
  });

  it('of the transition period and the image age also replace 0', () => {
    const zero = effective('evictionPressureTransitionPeriod: 0s\nimageMinimumGCAge: 0s');
    expect([zero.pressureTransitionMs, zero.imageMinimumGCAgeMs]).toEqual([300_000, 120_000]);
  });

  it('of nodefs depend on the mode', () => {
    expect(effective('').nodefsPath).toBe('/var');
    const kubelet = 'mode: kubelet\nkubernetes: {kubeconfig: /k}';
    expect(effective(kubelet).nodefsPath).toBe('/var/lib/kubelet');
    expect(effective(`${kubelet}\nnodefs: {path: /data}`).nodefsPath).toBe('/data');
  });

  it('do not prevent a guard of 0 kills from switching it off', () => {
    expect(effective('guard: {sameOwnerKills: 0}').guard).toBeNull();
  });
});

function shown(loaded: ReturnType<typeof loadConfig>, prefix: string): readonly string[] {
  return good(loaded)
    .settings.filter(({ path }) => path.startsWith(prefix))
    .map(
      ({ path, value, origin }) =>
        `${path} = ${JSON.stringify(value)} (${sayOrigin(origin).replaceAll(`${directory}/`, '')})`,
    );
}

describe('a KubeletConfiguration', () => {
  it('is read with YAML 1.1, implies the mode, and keeps unknown fields only as names', () => {
    const text = `${KUBELET_HEAD}mergeDefaultEvictionSettings: yes\nevictionHrad: {a: 1}\nauthentication: {webhook: on}\n`;
    const read = good(configOf(text, 'k.yaml', NO_SIZES));
    expect([read.mode, read.mergeDefaultEvictionSettings, read.ignoredFields]).toEqual([
      'kubelet',
      true,
      ['evictionHrad', 'authentication'],
    ]);
  });

  it('gets hard thresholds that act before the kubelet does', () => {
    const text = `${KUBELET_HEAD}evictionHard: {memory.available: 200Mi, nodefs.available: 20%, pid.available: "0%"}\n`;
    expect(shown(configOf(text, 'k.yaml', SIZES), 'evictionHard')).toEqual([
      'evictionHard["memory.available"] = "405Mi" (kubelet + margin (k.yaml, 205Mi more))',
      'evictionHard["nodefs.available"] = "22548578624" (kubelet + margin (k.yaml, 1Gi more))',
      'evictionHard["pid.available"] = "0%" (k.yaml:3)',
    ]);
  });
});

describe('an imported KubeletConfiguration', () => {
  const kubelet = [
    'evictionHard: {memory.available: 200Mi, pid.available: 5%}',
    'evictionSoft: {memory.available: 1Gi}',
    'evictionSoftGracePeriod: {memory.available: 2m}',
    'evictionMaxPodGracePeriod: 90',
    'clusterDomain: cluster.local',
  ].join('\n');
  const own = (path: string, more: string) =>
    `${HEAD}mode: kubelet\nkubernetes: {kubeconfig: /k}\nkubeletConfig: ${path}\n${more}`;

  it('fills what is not set here, with a margin for hard thresholds, and names the origin of each', () => {
    const path = file('kubelet.yaml', KUBELET_HEAD + kubelet);
    const loaded = loadConfig(file('c.yaml', own(path, 'evictionMaxPodGracePeriod: 30')), SIZES);
    expect(shown(loaded, 'eviction')).toEqual([
      'evictionStall = null (default)',
      'evictionHard["memory.available"] = "405Mi" (kubelet + margin (kubelet.yaml, 205Mi more))',
      'evictionHard["pid.available"] = "2150" (kubelet + margin (kubelet.yaml, 512 more))',
      'evictionSoft["memory.available"] = "1Gi" (kubelet.yaml:4)',
      'evictionSoftGracePeriod["memory.available"] = "2m" (kubelet.yaml:5)',
      'evictionMinimumReclaim = {} (default)',
      'evictionPressureTransitionPeriod = "5m" (default)',
      'evictionMaxPodGracePeriod = 30 (c.yaml:6)',
    ]);
    expect(good(loaded).ignoredFields).toEqual(['clusterDomain']);
  });

  it('is overridden field by field by what is set here, which gets no margin', () => {
    const path = file('kubelet.yaml', KUBELET_HEAD + kubelet);
    const loaded = loadConfig(file('c.yaml', own(path, 'evictionHard: {nodefs.available: 1Gi}')), SIZES);
    expect(shown(loaded, 'evictionHard')).toEqual(['evictionHard["nodefs.available"] = "1Gi" (c.yaml:6)']);
  });

  it("without evictionHard has the kubelet's defaults, which are raised, too", () => {
    const path = file('kubelet.yaml', KUBELET_HEAD);
    const loaded = loadConfig(file('c.yaml', own(path, '')), SIZES);
    expect(shown(loaded, 'evictionHard')).toContain(
      `evictionHard["memory.available"] = "305Mi" (kubelet + margin (the kubelet's defaults, 205Mi more))`,
    );
  });

  it('is checked, too, and its mistakes follow our own', () => {
    const path = file('kubelet.yaml', `${KUBELET_HEAD}evictionHard: {memory.available: 1ki}\n`);
    expect(said(file('c.yaml', own(path, 'dryRun: 1')))).toEqual([
      expect.stringContaining('c.yaml:6:9: dryRun: expected true or false'),
      expect.stringContaining(
        `${path}:3:34: evictionHard["memory.available"]: "1ki": unknown unit ki; for example "100Mi" or "10%"`,
      ),
    ]);
  });

  it('must exist and be of its kind', () => {
    expect(said(file('c.yaml', own('/nowhere/k.yaml', '')))).toEqual([
      expect.stringContaining('c.yaml:5:16: kubeletConfig: /nowhere/k.yaml does not exist'),
    ]);
    const path = file('kubelet.yaml', HEAD);
    expect(said(file('c.yaml', own(path, '')))).toEqual([
      expect.stringContaining(`${path}:2:7: kind: must be KubeletConfiguration`),
    ]);
  });
});

describe('a percentage', () => {
  it.each(['10%', '15%', '12.5%', '33.3%', '0.1%', '100.0%'])('%s is shown as it was meant', (text) => {
    const [threshold] = effective(`evictionHard: {memory.available: ${text}}`).thresholds;
    expect(threshold && sayValue(threshold.value)).toBe(`${Number(text.replace('%', ''))}%`);
  });
});
