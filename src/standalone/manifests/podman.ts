import { known, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import { isObject, parseJson } from '../../core/shape.ts';
import { valueAt } from '../../document/check.ts';
import { type ExecResult, run } from '../../host/exec.ts';
import type { CommandRunner } from '../../host/systemd/transient.ts';
import { cgroupOfUnit } from '../../host/systemd/unit-path.ts';
import type { Place } from './place.ts';

/** Runs podman with these arguments. */
export type AskPodman = (argv: readonly string[]) => Promise<ExecResult>;

const PODMAN_MS = 5_000;
const MAX_BYTES = 64 * 1024;

/** As a child of this process: for a person's command, which has no sandbox. */
export const asOwnChild: AskPodman = (argv) => run(argv, { timeoutMs: PODMAN_MS, maxOutputBytes: MAX_BYTES });

/** In the agent's sandbox podman takes itself for rootless, and can open nothing. `directory`: for what it prints. */
export function podmanBy(runCommand: CommandRunner | undefined, directory: string): AskPodman {
  if (runCommand === undefined) return asOwnChild;
  return (argv) => runCommand({ argv, timeoutMs: PODMAN_MS, waitsForBus: true, printsIn: directory });
}

/** Of all that podman says, only this: an image's labels may be long. */
const FORMATS = {
  container:
    '{"Id":{{json .ID}},"Name":{{json .Name}},"State":{{json .State}},"HostConfig":{"CgroupParent":{{json .HostConfig.CgroupParent}}}}',
  pod: '{"Id":{{json .ID}},"Name":{{json .Name}},"State":{{json .State}},"CgroupPath":{{json .CgroupPath}},"InfraContainerID":{{json .InfraContainerID}}}',
};
type Answers = ReadonlyMap<string, Reading<Place>>;

/**
 * One process for all of them. If it fails because of one, such as one that another command has locked, all of these failed: it
 * must be asked about each alone. That there is no such container or pod is an answer.
 */
export async function resolvePodman(ask: AskPodman, names: readonly string[]): Promise<Answers> {
  const containers = await inspect(ask, 'container', names);
  const others = [...containers].flatMap(([name, said]) => (!said.known && said.why === 'absent' ? [name] : []));
  return new Map([...containers, ...(await inspect(ask, 'pod', others))]);
}

async function inspect(ask: AskPodman, kind: 'container' | 'pod', names: readonly string[]): Promise<Answers> {
  if (names.length === 0) return new Map();
  const where = `podman ${kind} inspect ${names.join(' ')}`;
  const failed = (why: Unknown['why'], detail: string): Answers =>
    new Map(names.map((name) => [name, unknown(why, where, detail)]));
  const result = await ask(['podman', kind, 'inspect', '--format', FORMATS[kind], ...names]);
  if (result.kind === 'timed-out') return failed('timed-out', `no answer within ${PODMAN_MS / 1_000} s`);
  const isMissing = result.kind === 'failed' && result.detail === 'spawn podman ENOENT';
  if (result.kind === 'failed' && !isMissing) return failed('unreadable', result.detail);
  // As a unit it is started by env(1).
  if (result.kind === 'failed' || result.code === 127) return failed('unreadable', 'podman is not installed here');
  // podman also exits with 125 for its own errors; only the message distinguishes them.
  const complaints = result.code === 0 ? [] : result.stderr.split('\n').filter((line) => ABSENT.test(line));
  const isNamed = (name: string): boolean => complaints.some((line) => line.trimEnd().endsWith(` ${name}`));
  const absent = names.length === 1 && complaints.length > 0 ? names : names.filter(isNamed);
  if (result.code !== 0 && absent.length === 0) {
    const said = result.stderr.trim().slice(0, 300);
    return failed('unreadable', said === '' ? `exit status ${result.code}` : said);
  }
  // In the order of the names.
  const found = names.filter((name) => !absent.includes(name));
  const lines = result.stdout.split('\n').filter((line) => line.trim() !== '');
  const objects = lines.map(parseJson).filter(isObject);
  const areAll = lines.length === found.length && objects.length === found.length;
  if (!areAll || !objects.every((object, i) => isOf(object, found[i] ?? '')))
    return failed('malformed', 'not the output of podman');
  return new Map([
    ...absent.map((name) => [name, unknown('absent', name, NEITHER)] as const),
    ...objects.map((object, i) => [found[i] ?? '', placeOf[kind](found[i] ?? '', object)] as const),
  ]);
}

const placeOf = { container: containerPlace, pod: podPlace };
const NEITHER = 'podman knows no container and no pod of this name';
const ABSENT = /no such (container|pod|object)|no (container|pod) with name or id/i;
const isOf = (object: object, name: string): boolean =>
  textAt(object, 'Name') === name || textAt(object, 'Id').startsWith(name);

/** The cgroups in which Podman starts a container or a pod. */
const PODMANS_UNIT = /^libpod-[0-9a-f]{64}\.scope$|libpod_pod_[0-9a-f]{64}\.slice$/;
export const isPodmans = (unit: string): boolean => PODMANS_UNIT.test(unit);

/** The scope that systemd made for it: `libpod-<id>.scope`, wherever the container's own cgroup is below it. */
function containerPlace(name: string, container: object): Reading<Place> {
  const id = textAt(container, 'Id');
  const path = textAt(container, 'State', 'CgroupPath');
  if (!/^[0-9a-f]{64}$/.test(id)) return unknown('malformed', name, 'podman reported no container id');
  const unit = `libpod-${id}.scope`;
  if (textAt(container, 'State', 'Status') !== 'running' || path === '') {
    const parent = textAt(container, 'HostConfig', 'CgroupParent');
    const slice = /^[A-Za-z0-9:_.\\-]+\.slice$/.test(parent) ? parent : 'machine.slice';
    return known({ path: cgroupOfUnit(unit, slice), unit, facts: null });
  }
  const parts = path.split('/');
  const at = parts.indexOf(unit);
  if (at >= 0 && !parts.includes('..')) return known({ path: rooted(parts.slice(0, at + 1)), unit, facts: null });
  const service = parts.find((part) => part.endsWith('.service'));
  return unknown('unreadable', name, service === undefined ? notSystemd(path) : ofService(path, service));
}

function podPlace(name: string, pod: object): Reading<Place> {
  const path = textAt(pod, 'CgroupPath');
  const parts = path.split('/');
  const unit = parts.at(-1) ?? '';
  if (/^[A-Za-z0-9_-]+\.slice$/.test(unit) && !parts.includes('..'))
    return known({ path: rooted(parts), unit, facts: null });
  const isDown = /^(created|exited|stopped|dead)$/i.test(textAt(pod, 'State'));
  const isBare = path === '' && textAt(pod, 'InfraContainerID') === '';
  return unknown(isDown ? 'absent' : 'unreadable', name, isBare ? WITHOUT_INFRA : notSystemd(path));
}

const WITHOUT_INFRA =
  'Podman gives a pod without an infra container (--infra=false) no cgroup of its own: bind each of its containers';
const ofService = (path: string, service: string): string =>
  `its cgroup ${path} belongs to ${service}: bind that (nodewarden.dev/systemd-unit)`;
const notSystemd = (path: string): string =>
  `its cgroup is ${path || 'not named'}: only Podman's systemd cgroup manager is supported`;
const rooted = (parts: readonly string[]): string => `/${parts.filter((part) => part !== '').join('/')}`;

function textAt(value: unknown, ...path: readonly string[]): string {
  const at = valueAt(value, path);
  return typeof at === 'string' ? at : '';
}
