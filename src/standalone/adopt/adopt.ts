import { actionWithin } from '../../core/pod/grace.ts';
import { known, type Reading, unknown, valueOrNull } from '../../core/reading.ts';
import { isObject, isText, parseJson } from '../../core/shape.ts';
import { DEFAULT_GRACE_SECONDS } from '../../document/declared-pod.ts';
import { MAX_DOCUMENT_BYTES } from '../../document/document.ts';
import { sayProblem } from '../../document/problem.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { childrenOf } from '../../host/cgroup/cgroup-walk.ts';
import { hasProcesses, processesOf, refOf } from '../../host/cgroup/cgroupfs.ts';
import { directoryHangs } from '../../host/disk/hung-disk.ts';
import { run } from '../../host/exec.ts';
import { readDocument } from '../../host/files.ts';
import { createFileServers } from '../../host/process/file-server.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import { unitNameMistake } from '../../host/systemd/unit-name.ts';
import { mendFirst } from '../../words/finding-standalone.ts';
import type { Target } from '../manifests/annotation.ts';
import { cgroupPlace, type Guarded, guardedNow, guardedUnits, likelyPlace } from '../manifests/bind.ts';
import { checkManifests, manifestsHang } from '../manifests/check-manifests.ts';
import { overlap } from '../manifests/directories.ts';
import { parseManifest } from '../manifests/manifest.ts';
import { asOwnChild, resolvePodman } from '../manifests/podman.ts';
import { withoutLinks } from '../pods/scratch-places.ts';
import { allStoppedWith, createTieGraph, machineActionOf, type TieGraph } from '../ties/tie-graph.ts';
import { type Adopted, manifestFor, podNameFor, requestFor } from './adopt-manifest.ts';
import { ofTheSystem, roleOf } from './adopt-role.ts';
import { type SampleNeeds, type Seen, sample } from './adopt-sample.ts';

/** What runs here, with a proposed manifest for everything that could be a pod. */
export type Adoption = {
  readonly schema: 1;
  /** `cgroups`: no systemd runs here. */
  readonly source: 'systemd' | 'cgroups';
  /** How long memory was sampled; 0: once. */
  readonly sampledMs: number;
  /** The largest first. */
  readonly proposals: readonly Proposal[];
  readonly leftOut: readonly LeftOut[];
};
export type Proposal = Omit<Adopted, 'notes'> & {
  readonly pod: string;
  /** Its name in the directory of manifests. */
  readonly file: string;
  readonly manifest: string;
};
type LeftOut = { readonly name: string; readonly why: string };
/** A cgroup that may become a pod. `service`: systemd knows its directories. */
type Candidate = {
  readonly name: string;
  readonly target: Target;
  readonly path: string;
  readonly service: string | null;
  readonly notes: readonly string[];
};
export type AdoptNeeds = SampleNeeds & {
  /** Null: no systemd runs here. */
  readonly systemd: Systemd | null;
  readonly cgroupRoot: string;
  readonly podManifests: string;
};

/** The maximum number of simultaneous queries to systemd. */
const AT_ONCE = 16;
const MAX_CANDIDATES = 1_000;
const MAX_DEPTH = 3;
const PODMAN = { timeoutMs: 10_000, maxOutputBytes: 4 * 1024 * 1024 } as const;

export async function adopt(needs: AdoptNeeds): Promise<Reading<Adoption>> {
  const { mounts, systemd, podManifests, cgroupRoot } = needs;
  // What is declared would be proposed again.
  const hangs = (await directoryHangs(podManifests)) ?? [...(await manifestsHang(podManifests)).values()][0];
  if (hangs !== undefined) return hangs;
  const taken = manifestsIn(podManifests);
  if (!taken.known) return taken;
  const guarded = [...guardedNow(mounts), ...(systemd === null ? [] : await guardedUnits(systemd))];
  const found = systemd === null ? known(cgroupsIn(mounts, cgroupRoot)) : await unitsOf(systemd);
  if (!found.known) return found;
  const { facts } = found.value;
  const leftOut: LeftOut[] = [...found.value.leftOut];
  const rules = {
    mounts,
    guarded,
    taken: taken.value,
    places: placesOf(taken.value, found.value.candidates, cgroupRoot),
    cgroupRoot,
  };
  const served = filesBehind(found.value, mounts);
  const kept = found.value.candidates.slice(0, MAX_CANDIDATES).filter((candidate) => {
    const why =
      whyNot(candidate, found.value.candidates, rules) ??
      served.get(keyOf(candidate.target)) ??
      takesAlong(candidate, found.value, served);
    if (why !== null && why !== '') leftOut.push({ name: candidate.name, why });
    return why === null;
  });
  const { uses, sampledMs } = await sample(needs, kept);
  const ties = tiesOf(kept, facts);
  const proposals = (await inTurn(kept, (candidate) => propose(candidate, { systemd, ties, kept, uses }))).flatMap(
    (proposal): readonly Proposal[] => {
      const [problem] = parseManifest(proposal.manifest, proposal.file).problems;
      if (problem === undefined) return [proposal];
      leftOut.push({ name: proposal.name, why: `it cannot be named in a manifest: ${sayProblem(problem)}` });
      return [];
    },
  );
  return known({
    schema: 1,
    source: systemd === null ? 'cgroups' : 'systemd',
    sampledMs,
    proposals: proposals.toSorted((a, b) => (b.peakBytes ?? 0) - (a.peakBytes ?? 0)),
    leftOut: leftOut.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
  });
}

type Found = {
  readonly candidates: readonly Candidate[];
  readonly leftOut: readonly LeftOut[];
  readonly facts: ReadonlyMap<string, UnitFacts>;
};

async function unitsOf(systemd: Systemd): Promise<Reading<Found>> {
  const listed = await systemd.activeUnits();
  if (!listed.known) return listed;
  const names = [...new Set(listed.value)].filter((name) => /\.(service|scope|slice)$/.test(name));
  const leftOut = names.flatMap((name): readonly LeftOut[] => {
    const why = unitLeftOut(name);
    return why === null || why === '' ? [] : [{ name, why }];
  });
  const wanted = names.filter((name) => unitLeftOut(name) === null);
  const asked = await inTurn(wanted, (name) => systemd.unit(name));
  const facts = new Map(asked.flatMap((unit) => (unit.known ? [[unit.value.id, unit.value] as const] : [])));
  const unanswered = asked.flatMap((unit, i): readonly LeftOut[] =>
    unit.known ? [] : [{ name: wanted[i] ?? '', why: `systemd did not describe it: ${unit.detail}` }],
  );
  const byHand = [...facts.values()].filter(isByHand).map(({ id }) => ({ name: id, why: BY_HAND }));
  const candidates = [...facts.values()].flatMap((unit): readonly Candidate[] =>
    unit.controlGroup === null || isByHand(unit) ? [] : [unitCandidate(unit.id, unit.controlGroup)],
  );
  const podman = await containers();
  return known({
    candidates: [...candidates, ...podman.candidates],
    leftOut: [...leftOut, ...byHand, ...unanswered, ...podman.leftOut],
    facts,
  });
}

function unitCandidate(id: string, path: string): Candidate {
  const docker = /^docker-[0-9a-f]{64}\.scope$/.test(id);
  return {
    name: id.replace(/\.service$/, ''),
    target: { kind: 'unit', unit: id },
    path,
    service: id.endsWith('.service') ? id : null,
    notes: docker
      ? [
          'The scope of a Docker container, whose name changes when the container is recreated. Bind the unit that runs it instead.',
        ]
      : [],
  };
}

const BY_HAND = 'it was started by hand (systemd-run or the like), and nothing would start it again';
/** Every scope is transient. Those of containers and virtual machines are what people know them by. */
const isByHand = ({ id, isTransient }: UnitFacts): boolean =>
  isTransient === true && !/^(docker|machine|crio|cri-containerd)-.*\.scope$/.test(id);

/** Why a unit is left out, by its name. '': without a word; null: it may be a pod. */
function unitLeftOut(name: string): string | null {
  if (/^libpod-/.test(name)) return '';
  const mistake = unitNameMistake(name);
  if (mistake !== null) return mistake;
  if (/^session-.*\.scope$/.test(name)) return 'a login';
  if (/^(run-|docker-).*\.service$|^run-.*\.scope$/.test(name)) return BY_HAND;
  if (/^(-|system|user|user-\d+|machine|init|system-.*)\.slice$/.test(name)) return '';
  return ofTheSystem(name);
}

/** Podman's containers that have a scope of their own; a container that a unit runs is that unit. */
async function containers(): Promise<Pick<Found, 'candidates' | 'leftOut'>> {
  const result = await run(['podman', 'ps', '--no-trunc', '--format', 'json'], PODMAN);
  if (result.kind !== 'exited' || result.code !== 0) return { candidates: [], leftOut: [] };
  const listed = parseJson(result.stdout);
  const names = (Array.isArray(listed) ? listed : []).flatMap((container): readonly string[] => {
    const all: unknown = isObject(container) ? container['Names'] : null;
    const name: unknown = Array.isArray(all) ? all[0] : all;
    return isText(name) && /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$/.test(name) ? [name] : [];
  });
  const candidates: Candidate[] = [];
  const leftOut: LeftOut[] = [];
  for (const name of names.slice(0, MAX_CANDIDATES)) {
    const target = { kind: 'podman', name } as const;
    const place = (await resolvePodman(asOwnChild, [name])).get(name);
    if (place?.known && place.value.path !== null)
      candidates.push({ name, target, path: place.value.path, service: null, notes: [] });
    else
      leftOut.push({
        name,
        why: `a container of Podman: ${place?.known === false ? place.detail : 'its cgroup is not known'}`,
      });
  }
  return { candidates, leftOut };
}

/** Without systemd: on each path down the tree, the first cgroup that has processes of its own. */
function cgroupsIn(mounts: CgroupMounts, cgroupRoot: string): Found {
  const root = cgroupRoot.replace(/\/+$/, '');
  const candidates: Candidate[] = [];
  const leftOut: LeftOut[] = [];
  const walk = (below: string, depth: number): void => {
    const children = childrenOf(`${mounts.memory}${root}${below}`, MAX_CANDIDATES);
    for (const child of children.known ? children.value.names : []) {
      const path = `${below}/${child}`;
      if (!/^[A-Za-z0-9:_.@\\-]+$/.test(child) || child.startsWith('..')) {
        leftOut.push({ name: path, why: 'a name with such characters cannot be written in a manifest' });
        continue;
      }
      const inner = childrenOf(`${mounts.memory}${root}${path}`, 1);
      const isGroup = inner.known && inner.value.names.length > 0;
      if (isGroup && depth < MAX_DEPTH && !isOccupied(mounts, `${root}${path}`)) walk(path, depth + 1);
      else
        candidates.push({
          name: path.slice(1),
          target: { kind: 'cgroup', path },
          path: `${root}${path}`,
          service: null,
          notes: [],
        });
    }
  };
  walk('', 1);
  return { candidates, leftOut, facts: new Map() };
}

/** Whether it has processes of its own, not only in a cgroup below it. */
function isOccupied(mounts: CgroupMounts, path: string): boolean {
  const text = readDocument(`${mounts.memory}${path}/cgroup.procs`, MAX_DOCUMENT_BYTES);
  return text.known && text.value.trim() !== '';
}

type Rules = {
  readonly mounts: CgroupMounts;
  readonly guarded: readonly Guarded[];
  readonly taken: Taken;
  readonly places: readonly { readonly path: string; readonly file: string }[];
  readonly cgroupRoot: string;
};

/** Why a cgroup is left out. '': without a word; null: it may be a pod. */
function whyNot(
  candidate: Candidate,
  all: readonly Candidate[],
  { mounts, guarded, taken, places, cgroupRoot }: Rules,
): string | null {
  const { path, target } = candidate;
  const root = cgroupRoot.replace(/\/+$/, '');
  if (path === root) return `it is the node (cgroupRoot ${root})`;
  if (root !== '' && !path.startsWith(`${root}/`)) return `it is outside the node (cgroupRoot ${root})`;
  const holds = guarded.find((other) => overlap(other.path, path) && other.path.length >= path.length);
  if (holds !== undefined) return `it holds ${holds.what}, without which the machine cannot be saved`;
  const ref = refOf(mounts, path);
  if (!ref.known || !hasProcesses(mounts, ref.value)) return '';
  const own = taken.get(keyOf(target));
  if (own !== undefined) return `it is declared already, in ${own.file}`;
  const place = places.find((other) => overlap(other.path, path));
  if (place !== undefined) return `it overlaps with ${place.path}, which ${place.file} declares`;
  const ofSystem = target.kind === 'cgroup' ? ofTheSystem(serviceOf(target.path)) : null;
  if (ofSystem !== null) return ofSystem;
  const inner = all.find((other) => other !== candidate && other.path.startsWith(`${path}/`));
  if (inner !== undefined && isSlice(candidate)) return `what runs in it is proposed one by one, such as ${inner.name}`;
  const outer = all.find((other) => other !== candidate && !isSlice(other) && path.startsWith(`${other.path}/`));
  return outer === undefined ? null : `it is in ${outer.name}`;
}

/** The service that an init other than systemd, such as OpenRC, runs in a cgroup of this name. */
const serviceOf = (path: string): string => `${path.slice(path.lastIndexOf('/') + 1).replace(/^openrc\./, '')}.service`;

/** Those through which others reach files or disks, with what shows it: it would pull these from under whoever uses them. */
function filesBehind({ candidates, facts }: Found, mounts: CgroupMounts): Served {
  const serverAmong = createFileServers();
  const found = candidates.flatMap(({ target, path }): readonly (readonly [string, string])[] => {
    const relations = target.kind === 'unit' ? facts.get(target.unit)?.relations : undefined;
    const mount = NEEDED_BY.flatMap((list) => relations?.[list] ?? []).find((name) => /\.(mount|swap)$/.test(name));
    const ref = refOf(mounts, path);
    const pids = ref.known ? valueOrNull(processesOf(mounts, ref.value)) : null;
    const server = valueOrNull(serverAmong(pids ?? []));
    const why = server === null ? mount : `${server.name} (process ${server.pid}) has ${server.device} open`;
    return why === undefined ? [] : [[keyOf(target), `files depend on it: ${why}`]];
  });
  return new Map(found);
}
type Served = ReadonlyMap<string, string>;
/** In their order, too: a mount that is stopped before a service needs it. */
const NEEDED_BY = ['RequiredBy', 'RequisiteOf', 'BoundBy', 'WantedBy', 'UpheldBy', 'Before'];

/**
 * A unit that is left out for good, or whose end may reset the machine, and would be stopped too, also because it is in the slice;
 * null: none.
 */
function takesAlong({ target }: Candidate, { facts, leftOut }: Found, served: Served): string | null {
  if (target.kind !== 'unit') return null;
  const along = allStoppedWith(target.unit, facts);
  const action = actionWithin(machineActionOf(target.unit, [...along], facts), DEFAULT_GRACE_SECONDS);
  if (action !== null) return `its end may trigger ${action}`;
  const other = leftOut.find(({ name }) => along.has(name) && ofTheSystem(name) !== null);
  if (other !== undefined) return `systemd stops ${other.name} with it: ${other.why}`;
  const server = [...along].find((unit) => served.has(keyOf({ kind: 'unit', unit })));
  if (server === undefined) return null;
  return `systemd stops ${server} with it: ${served.get(keyOf({ kind: 'unit', unit: server }))}`;
}

const isSlice = ({ target }: Candidate): boolean => target.kind === 'unit' && target.unit.endsWith('.slice');
const keyOf = (target: Target): string =>
  `${target.kind} ${target.kind === 'unit' ? target.unit : target.kind === 'cgroup' ? target.path : target.name}`;

type Taken = ReadonlyMap<string, { readonly target: Target; readonly file: string }>;

/** Where what they bind is, as far as that is known without a query. */
function placesOf(taken: Taken, candidates: readonly Candidate[], cgroupRoot: string): Rules['places'] {
  const running = new Map(candidates.map(({ target, path }) => [keyOf(target), path]));
  return [...taken].flatMap(([key, { target, file }]) => {
    const likely = target.kind === 'cgroup' ? cgroupPlace(cgroupRoot, target) : likelyPlace(target);
    const path = running.get(key) ?? likely.path;
    return path === null ? [] : [{ path, file }];
  });
}

/** What the existing manifests bind, each with its file. A mistake may hide what that is, and it would be proposed again. */
function manifestsIn(directory: string): Reading<Taken> {
  const { pods, problems } = checkManifests(directory);
  const [mistake] = problems;
  if (mistake !== undefined) return unknown('malformed', sayProblem(mistake), mendFirst(problems.length));
  return known(
    new Map(
      pods.map(
        ({ target, problem }) =>
          [keyOf(target), { target, file: problem('').file.slice(directory.length + 1) }] as const,
      ),
    ),
  );
}

async function propose(
  candidate: Candidate,
  at: {
    readonly systemd: Systemd | null;
    readonly ties: TieGraph;
    readonly kept: readonly Candidate[];
    readonly uses: ReadonlyMap<Candidate, Seen>;
  },
): Promise<Proposal> {
  const { name, target, service, notes } = candidate;
  const { workingSetBytes = null, peakBytes = null, usedBytes = null } = at.uses.get(candidate) ?? {};
  const directories =
    service === null || at.systemd === null ? null : valueOrNull(await at.systemd.directories(service));
  const isSecond = at.kept.find((other) => podNameFor(other.name) === podNameFor(name)) !== candidate;
  const adopted: Adopted = {
    target,
    name: isSecond ? `${target.kind}-${name}` : name,
    ...priorityOf(candidate, at.ties),
    workingSetBytes,
    peakBytes,
    requestBytes: usedBytes === null ? null : requestFor(usedBytes),
    disk: directories === null ? [] : await withoutLinks([...directories.state, ...directories.logs]),
    scratch: directories?.cache ?? [],
    notes,
  };
  const { notes: _, ...rest } = adopted;
  const pod = podNameFor(adopted.name);
  return { ...rest, pod, file: `${pod}.yaml`, manifest: manifestFor(adopted) };
}

/** Of their units, each of which stands for its pod. */
function tiesOf(kept: readonly Candidate[], facts: Found['facts']): TieGraph {
  const units = kept.flatMap(({ target }) => (target.kind === 'unit' ? [target.unit] : []));
  return createTieGraph(facts, new Map(units.map((unit) => [unit, unit])));
}

/** D16: at least the priority of the units that systemd stops along with it. */
function priorityOf({ name, target }: Candidate, ties: TieGraph): Pick<Adopted, 'role' | 'priority' | 'priorityFrom'> {
  const own = { ...roleOf(name), priorityFrom: null };
  if (target.kind !== 'unit') return own;
  const along = ties.of(target.unit)?.pods ?? [];
  const [highest] = along.map((unit) => ({ unit, ...roleOf(unit) })).toSorted((a, b) => b.priority - a.priority);
  if (highest === undefined || highest.priority <= own.priority) return own;
  return { role: own.role, priority: highest.priority, priorityFrom: highest.unit };
}

async function inTurn<T, R>(items: readonly T[], ask: (item: T) => Promise<R>): Promise<readonly R[]> {
  const answers: R[] = [];
  for (let i = 0; i < items.length; i += AT_ONCE)
    answers.push(...(await Promise.all(items.slice(i, i + AT_ONCE).map(ask))));
  return answers;
}
