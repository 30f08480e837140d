import type { MonoMs } from '../reading.ts';
import { type GuardConfig, keysOf, type MethodKey, type NodePlan, planOf } from './config.ts';
import type { GuardReason, LevelLack, StatusAsk } from './decision.ts';
import type { DeviceAnswer } from './observation.ts';
import type { Contradiction, KeptDevice, NodeRef, PowerState } from './record.ts';
import { type DeviceMemory, deviceKey, type GuardState, type NodeMemory } from './state.ts';

/** Two answers this far apart are two rounds (guard.md 8.3). */
export const ROUNDS_APART_MS = 5_000;
/** guard.md 8.3 (e): how old the second round may be when the patch is sent, counted from when it began. */
export const ROUND_VALID_MS = 15_000;
/** A status that took longer leaves no time for the look and the patch that follow it. */
export const IN_TIME_MS = ROUND_VALID_MS - 1_000;
/** A status is believed for this long when a fencing is decided. */
export const STATUS_FRESH_MS = 30_000;
/** The devices of a dead node are asked again after this. */
const STATUS_AGAIN_MS = 10_000;
/** A lease renewed this long after a device said off is a contradiction: renewals are 10 s apart, and listed every 5 s. */
const CONTRADICTED_AFTER_MS = 15_000;
/** Both words of a contradiction lie within this, so that no machine was off and on again in between. */
export const CONTRADICTED_WITHIN_MS = 120_000;
const KEPT_ANSWERS = 8;

type Devices = GuardState['devices'];

/** The devices' memory after the answers of this look, and what of them cannot be true (guard.md 11.2). */
export function stepDevices(
  before: Devices,
  answers: readonly DeviceAnswer[],
  nodes: GuardState['nodes'],
  wallMs: number,
): { readonly devices: Devices; readonly reasons: readonly GuardReason[] } {
  if (answers.length === 0) return { devices: before, reasons: [] };
  const devices = new Map(before);
  const reasons: GuardReason[] = [];
  for (const answer of answers) {
    const key = deviceKey(answer.node, answer.method);
    const known = devices.get(key);
    const node = nodes.get(answer.node);
    const isFalse = known !== undefined && node !== undefined && isFalseOff(known, answer, node);
    const heard = withAnswer(known, answer, node, wallMs);
    if (!isFalse || heard.contradicted !== null) {
      devices.set(key, heard);
      continue;
    }
    const contradicted: Contradiction = { why: 'off-while-alive', wallMs };
    devices.set(key, { ...heard, contradicted });
    reasons.push({ code: 'device-contradicted', node: refOf(node), method: answer.method, by: contradicted });
  }
  return { devices, reasons };
}

/** Off twice, and in between the node renewed its lease. */
function isFalseOff(
  { recent }: DeviceMemory,
  { says, begunMs }: DeviceAnswer,
  { signMs, isSuspect }: NodeMemory,
): boolean {
  const last = recent.at(-1);
  if (says !== 'off' || last?.says !== 'off' || isSuspect || signMs === null) return false;
  const isBetween = signMs > last.endedMs + CONTRADICTED_AFTER_MS && signMs <= begunMs;
  return isBetween && begunMs - last.endedMs <= CONTRADICTED_WITHIN_MS;
}

function withAnswer(
  known: DeviceMemory | undefined,
  answer: DeviceAnswer,
  memory: NodeMemory | undefined,
  wallMs: number,
): DeviceMemory {
  const { node, method, says, begunMs, endedMs } = answer;
  const recent = known?.recent ?? [];
  const awayMs = known?.awayMs ?? null;
  // Of one that was never seen alive: since it is known to be silent.
  const fromMs = memory?.signMs ?? memory?.sinceMs ?? null;
  const hasAnswered = fromMs !== null && (recent.at(-1)?.begunMs ?? fromMs) > fromMs;
  const isBack = says === 'on' && awayMs !== null && awayMs > (fromMs ?? Number.NEGATIVE_INFINITY);
  return {
    node,
    method,
    says,
    begunMs,
    silentSinceMs: says === 'unknown' ? (known?.silentSinceMs ?? begunMs) : null,
    wallMs,
    recent: says === 'unknown' ? recent : [...recent, { says, begunMs, endedMs }].slice(-KEPT_ANSWERS),
    awayMs: says === 'on' ? null : says === 'unknown' && hasAnswered ? awayMs : begunMs,
    returnedMs: isBack ? begunMs : (known?.returnedMs ?? null),
    offMs: says === 'off' ? begunMs : (known?.offMs ?? null),
    hasSaidOn: says === 'on' || known?.hasSaidOn === true,
    contradicted: known?.contradicted ?? null,
    rehearsedWallMs: known?.rehearsedWallMs ?? null,
  };
}

/** Since when one of its devices says on again that was away, and it has not lived since: it may be booting. Null: none does. */
export function returnedMs(
  { object, signMs }: NodeMemory,
  methods: readonly MethodKey[],
  devices: Devices,
): MonoMs | null {
  const since = methods.map((method) => {
    const device = devices.get(deviceKey(object.uid, method));
    return device === undefined || device.says === 'off' ? null : device.returnedMs;
  });
  const last = Math.max(...since.map((ms) => ms ?? Number.NEGATIVE_INFINITY));
  return last > (signMs ?? Number.NEGATIVE_INFINITY) ? last : null;
}

/**
 * What an earlier leader kept, where this process knows nothing itself; what it holds against a device counts always. One that was
 * away, or had just returned, counts as away until now.
 */
export function adoptDevices(own: Devices, kept: readonly KeptDevice[], atMs: MonoMs): Devices {
  const devices = new Map(own);
  for (const { hasReturned, ...device } of kept) {
    const key = deviceKey(device.node, device.method);
    const known = devices.get(key);
    const awayMs = hasReturned || device.says !== 'on' ? atMs : null;
    devices.set(
      key,
      known === undefined
        ? { ...device, begunMs: null, silentSinceMs: null, recent: [], awayMs, returnedMs: null, offMs: null }
        : {
            ...known,
            awayMs: awayMs ?? known.awayMs,
            hasSaidOn: known.hasSaidOn || device.hasSaidOn,
            contradicted: known.contradicted ?? device.contradicted,
            rehearsedWallMs: device.rehearsedWallMs ?? known.rehearsedWallMs,
          },
    );
  }
  return devices;
}

/** Of the methods that can prove a machine off, those that have said on. */
export const heardOn = (uid: string, { levels }: NodePlan, devices: Devices): readonly MethodKey[] =>
  levels.flat().filter((method) => devices.get(deviceKey(uid, method))?.hasSaidOn);

/** Whoever goes on with a fencing knows by its record what its proof needs, whether or not that was kept elsewhere in time. */
export function withRecorded(devices: Devices, fencings: GuardState['fencings'], atMs: MonoMs): Devices {
  const recorded = [...fencings.values()].flatMap(({ record: { node, onHeard, answers, steps } }) =>
    onHeard
      .filter((method) => !devices.get(deviceKey(node.uid, method))?.hasSaidOn)
      .map((method): KeptDevice => {
        const said = answers.findLast((answer) => answer.method === method && answer.act === 'status');
        const says = said?.says === 'off' || said?.says === 'unknown' ? said.says : 'on';
        const wallMs = said?.wallMs ?? steps[0]?.wallMs ?? 0;
        const nothing = { hasReturned: false, contradicted: null, rehearsedWallMs: null };
        return { node: node.uid, method, says, wallMs, hasSaidOn: true, ...nothing };
      }),
  );
  return recorded.length === 0 ? devices : adoptDevices(devices, recorded, atMs);
}

type Asked = Pick<GuardState, 'devices' | 'nodes' | 'fencings'>;

/** Devices of nodes that exist by methods that are configured, and those that an open fencing began with. */
function devicesInUse({ devices, nodes, fencings }: Asked, config: GuardConfig): readonly DeviceMemory[] {
  const begunWith = new Set(
    [...fencings.values()].flatMap(({ record: { node, plan } }) => keysOf(plan).map((key) => deviceKey(node.uid, key))),
  );
  return [...devices.values()].filter(({ node, method }) => {
    if (begunWith.has(deviceKey(node, method))) return true;
    const memory = nodes.get(node);
    const plan = memory === undefined ? null : planOf(config, memory.object.name);
    return plan !== null && keysOf(plan).includes(method);
  });
}

/** What left the configuration or the cluster says nothing any more. `state`: its nodes are those that were listed last. */
export function withoutUnused(state: Asked, config: GuardConfig): Devices {
  const used = devicesInUse(state, config);
  if (used.length === state.devices.size) return state.devices;
  return new Map(used.map((device) => [deviceKey(device.node, device.method), device]));
}

/** To be stored in `guard-devices`. */
export function keptDevices(state: Asked, config: GuardConfig): readonly KeptDevice[] {
  return devicesInUse(state, config).map((device): KeptDevice => {
    const { node, method, says, wallMs, hasSaidOn, contradicted, rehearsedWallMs } = device;
    const memory = state.nodes.get(node);
    const hasReturned = memory !== undefined && returnedMs(memory, [method], state.devices) !== null;
    return { node, method, says, wallMs, hasSaidOn, hasReturned, contradicted, rehearsedWallMs };
  });
}

/** Everything that was said by these methods of a node is not believed any more. */
export function contradict(
  devices: Devices,
  uid: string,
  methods: readonly MethodKey[],
  contradicted: Contradiction,
): Devices {
  const after = new Map(devices);
  for (const method of methods) {
    const known = devices.get(deviceKey(uid, method));
    if (known !== undefined) after.set(deviceKey(uid, method), { ...known, contradicted });
  }
  return after;
}

/** A rehearsal has shown that these methods switch this machine, and no other one (guard.md 11.3). */
export function rehearsed(devices: Devices, uid: string, methods: readonly MethodKey[], wallMs: number): Devices {
  const after = new Map(devices);
  for (const method of methods) {
    const known = devices.get(deviceKey(uid, method));
    if (known === undefined) continue;
    after.set(deviceKey(uid, method), { ...known, contradicted: null, rehearsedWallMs: wallMs });
  }
  return after;
}

/** What a level is used for: a rehearsal is what makes a device believed again. */
export type LevelUse = 'fence' | 'fence-if-rehearsed' | 'rehearse';

export const useOf = ({ requireRehearsal }: Pick<GuardConfig, 'requireRehearsal'>, isRehearsal: boolean): LevelUse =>
  isRehearsal ? 'rehearse' : requireRehearsal ? 'fence-if-rehearsed' : 'fence';

/**
 * From when the answers of a status count: recent ones, and none from before its node came to, when its machine may have been
 * without power.
 */
export const freshSince = ({ livesMs }: Pick<NodeMemory, 'livesMs'>, atMs: MonoMs): MonoMs =>
  Math.max(atMs - STATUS_FRESH_MS, livesMs ?? Number.NEGATIVE_INFINITY);

/** `freshMs`, here and below: as `freshSince` says. */
export function lackOfLevel(
  uid: string,
  level: readonly MethodKey[],
  devices: Devices,
  freshMs: MonoMs,
  use: LevelUse,
): LevelLack | null {
  const known = level.map((method) => devices.get(deviceKey(uid, method)));
  const isContradicted = known.some((device) => device !== undefined && device.contradicted !== null);
  if (isContradicted && use !== 'rehearse') return 'contradicted';
  if (known.some((device) => device?.says === 'unknown' && device.begunMs !== null)) return 'silent';
  if (slowestMs(known) !== null) return 'too-slow';
  if (!known.every((device) => isAnswering(device, freshMs))) return 'not-asked';
  if (!known.every((device) => device?.hasSaidOn)) return 'never-on';
  const isRehearsed = known.every((device) => (device?.rehearsedWallMs ?? null) !== null);
  return use === 'fence-if-rehearsed' && !isRehearsed ? 'not-rehearsed' : null;
}

/** Why none of these levels can be used: first what does not mend itself, then what is not known yet. Null: one can. */
export function lackOfPlan(
  uid: string,
  levels: NodePlan['levels'],
  devices: Devices,
  freshMs: MonoMs,
  use: LevelUse,
): LevelLack | null {
  const lacks = levels.map((level) => lackOfLevel(uid, level, devices, freshMs, use));
  if (lacks.includes(null)) return null;
  const lasting = lacks.find((lack) => lack !== 'silent' && lack !== 'not-asked');
  return lasting ?? (lacks.includes('not-asked') ? 'not-asked' : 'silent');
}

/** How long the slowest of their last answers took, if it came too late for a proof; null: none did. */
export function slowestMs(devices: readonly (DeviceMemory | undefined)[]): number | null {
  const slowest = Math.max(0, ...devices.map(tookMs));
  return slowest > IN_TIME_MS ? slowest : null;
}

/** How long it took to say on or off; 0: it did not, to its last status. */
function tookMs(device: DeviceMemory | undefined): number {
  const last = device?.recent.at(-1);
  return last === undefined || last.begunMs !== device?.begunMs ? 0 : last.endedMs - last.begunMs;
}

function isAnswering(device: DeviceMemory | undefined, freshMs: MonoMs): boolean {
  if (device === undefined || device.says === 'unknown' || device.begunMs === null) return false;
  return device.begunMs >= freshMs;
}

/** Two rounds of status of one level. The second one began at `begunMs` at the earliest and ended at `endedMs` at the latest. */
export type Rounds = { readonly begunMs: MonoMs; readonly endedMs: MonoMs };

/** Every method said off in two rounds that were begun at `sinceMs` or later, and nothing else since; null: not so. */
export function offTwice(uid: string, level: readonly MethodKey[], devices: Devices, sinceMs: MonoMs): Rounds | null {
  const second: { begunMs: MonoMs; endedMs: MonoMs } = { begunMs: Number.POSITIVE_INFINITY, endedMs: 0 };
  for (const method of level) {
    const device = devices.get(deviceKey(uid, method));
    const answers = (device?.recent ?? []).filter(({ begunMs }) => begunMs >= sinceMs);
    const last = answers.at(-1);
    if (last === undefined || device?.says !== 'off' || answers.some(({ says }) => says !== 'off')) return null;
    if (!answers.some(({ endedMs }) => last.begunMs - endedMs >= ROUNDS_APART_MS)) return null;
    second.begunMs = Math.min(second.begunMs, last.begunMs);
    second.endedMs = Math.max(second.endedMs, last.endedMs);
  }
  return level.length === 0 ? null : second;
}

/**
 * A level by which the machine is off already, as its devices said in so many rounds (guard.md 6.2); null: none, or another
 * device says on.
 */
export function levelOffAlready(
  uid: string,
  { levels }: NodePlan,
  devices: Devices,
  freshMs: MonoMs,
  use: LevelUse,
  rounds: 1 | 2 = 2,
): number | null {
  const says = (method: MethodKey, power: PowerState): boolean => {
    const device = devices.get(deviceKey(uid, method));
    return device?.says === power && isAnswering(device, freshMs);
  };
  if (levels.flat().some((method) => says(method, 'on'))) return null;
  const at = levels.findIndex(
    (level) =>
      lackOfLevel(uid, level, devices, freshMs, use) === null &&
      level.length > 0 &&
      level.every((method) => says(method, 'off')) &&
      (rounds === 1 || offTwice(uid, level, devices, freshMs) !== null),
  );
  return at === -1 ? null : at;
}

/** The methods that were not asked within `againMs`, or not since `sinceMs`. */
export function dueStatus(
  node: NodeRef,
  methods: readonly MethodKey[],
  devices: Devices,
  atMs: MonoMs,
  reason: StatusAsk['for'],
  { againMs = STATUS_AGAIN_MS, sinceMs = null }: { readonly againMs?: number; readonly sinceMs?: MonoMs | null } = {},
): readonly StatusAsk[] {
  return methods.flatMap((method) => {
    const begunMs = devices.get(deviceKey(node.uid, method))?.begunMs ?? null;
    const isKnown = begunMs !== null && atMs - begunMs < againMs && (sinceMs === null || begunMs >= sinceMs);
    return isKnown ? [] : [{ node, method, for: reason }];
  });
}

export const refOf = ({ object: { name, uid, bootId } }: NodeMemory): NodeRef => ({ name, uid, bootId });
