import { podName } from '../core/pod/pod.ts';
import type { ExplainReport } from '../serve/explain-report.ts';
import type { StatusReport } from '../serve/status.ts';
import { type Said, sayVerdict, tile, type Verdict } from './both-pages.ts';
import { byId, el, keep, nameOf, setText, timeOf } from './dom.ts';
import { sayAbout, sayAgo, sayFor, sayWhen } from './say.ts';
import type { Forecast } from './signals-view.ts';

/** Which agent this is, and its state. */
export function showHead({ node, config }: StatusReport, nowWallMs: number): void {
  setText(byId('node'), node.name);
  document.title = `${node.name} · nodewarden`;
  const facts = [
    `nodewarden ${node.version}`,
    `mode ${node.mode}`,
    `cgroup ${node.cgroupLayout}, node ${node.cgroupRoot}`,
    `observing for ${sayFor(node.observedForMs)}`,
  ];
  keep(
    byId('facts'),
    facts.map((fact) => el('span', {}, fact)),
  );
  byId('dry').hidden = !node.dryRun;
  keep(byId('foot'), [footOf(config, nowWallMs)]);
}

function footOf({ path, loadedWallMs, lastReload }: StatusReport['config'], nowWallMs: number): HTMLElement {
  const file = path ?? 'no file, all defaults';
  const atWallMs = lastReload?.atWallMs ?? loadedWallMs;
  const notInForce =
    lastReload === null || (lastReload.ok && lastReload.isPending === undefined) ? '' : `: ${lastReload.text}`;
  return el(
    'p',
    {},
    'Configuration: ',
    el('code', {}, file),
    `, ${howLoaded(lastReload)} `,
    timeOf(atWallMs, sayWhen(atWallMs, nowWallMs)),
    `${notInForce}. This page is read-only.`,
  );
}

function howLoaded(lastReload: StatusReport['config']['lastReload']): string {
  if (lastReload === null) return 'loaded';
  if (!lastReload.ok) return 'refused, the running one stays in force:';
  return lastReload.isPending ? 'read, not in force yet' : 'reloaded';
}

/** One sentence about the overall state, and why. */
export function showVerdict(status: StatusReport, forecasts: readonly Forecast[]): void {
  sayVerdict(verdictOf(status, forecasts));
}

function verdictOf(status: StatusReport, forecasts: readonly Forecast[]): Verdict {
  const { act, signals, shutdown, reasons } = status;
  const because = reasons.map(({ text }) => text);
  if (shutdown.running !== null) {
    const { type, phase, podsLeft } = shutdown.running;
    const waiting =
      podsLeft.length === 0
        ? []
        : [
            `Waiting for ${podsLeft.slice(0, 5).join(', ')}${podsLeft.length > 5 ? ` and ${podsLeft.length - 5} more` : ''}.`,
          ];
    return {
      level: 'bad',
      text: `${type ?? 'The machine is going down'}: ${phase === 0 ? 'about to begin' : `shutdown phase ${phase} of ${shutdown.phases.length}`}`,
      why: waiting,
    };
  }
  if (act.kind === 'evicting') {
    const waiting = act.evictions.filter(({ isSettled }) => !isSettled);
    const pods = (waiting.length === 0 ? act.evictions : waiting).map(({ pod, cause }) => `${pod} for ${cause}`);
    return { level: 'bad', text: `Evicting ${pods.join(', ')}`, why: because };
  }
  if (act.kind === 'reclaiming')
    return { level: 'warn', text: `Reclaiming for ${act.signal}, before any pod is evicted`, why: because };
  const met = signals.filter(
    ({ aliasOf, thresholds }) => aliasOf === null && thresholds.some(({ metForMs }) => metForMs !== null),
  );
  if (met.length > 0) {
    const isHard = met.some(({ thresholds }) => thresholds.some(({ kind, isMet }) => kind === 'hard' && isMet));
    return {
      level: isHard ? 'bad' : 'warn',
      text: `${met.map(({ signal }) => signal).join(', ')} ${met.length === 1 ? 'is' : 'are'} below a threshold`,
      why: because,
    };
  }
  const soonest = forecasts.toSorted((a, b) => a.inMs - b.inMs)[0];
  const held = conditionsOf(status);
  if (soonest !== undefined && soonest.inMs < SOON_MS) {
    const why = [
      `At the rate of the last minute. ${soonest.kind === 'hard' ? 'A pod is evicted then.' : 'Its grace period begins then.'}`,
      ...because,
    ];
    return {
      level: 'warn',
      text: `${soonest.signal} reaches its ${soonest.kind} threshold in ${sayAbout(soonest.inMs)}`,
      why,
    };
  }
  const unknown = signals.filter(
    (of) => of.unknown !== null && of.unknown.why !== 'not-applicable' && of.aliasOf === null,
  );
  if (unknown.length > 0)
    return {
      level: 'warn',
      text: `${unknown.map(({ signal }) => signal).join(', ')} ${unknown.length === 1 ? 'is' : 'are'} unknown`,
      why: ['No decision is based on unknown values.', ...because],
    };
  if (held.length > 0) return { level: 'warn', text: 'No longer under pressure', why: because };
  if (!signals.some(({ thresholds }) => thresholds.length > 0))
    return { level: 'warn', text: 'No threshold is set: nothing is ever evicted', why: [] };
  return { level: 'ok', text: 'No pressure', why: ['Every signal is above its thresholds.', ...because] };
}
const SOON_MS = 15 * 60_000;

export function showTiles(status: StatusReport, explain: ExplainReport): void {
  const held = conditionsOf(status);
  keep(byId('tiles'), [
    tile('Eviction', ...evictionTile(status, explain)),
    tile('Shutdown', ...shutdownTile(status)),
    held.length === 0
      ? tile('Conditions', 'plain', 'None', ['no pressure on the node'])
      : tile('Conditions', 'warn', held.join(', '), ['true, or within the transition period']),
    tile('Stalled tasks', 'plain', stallsOf(status), ['of the last 10 seconds, whole machine']),
  ]);
}

const conditionsOf = ({ conditions }: StatusReport): readonly string[] =>
  Object.entries(conditions).flatMap(([name, isTrue]) => (isTrue ? [name] : []));

const stallsOf = ({ psi }: StatusReport): string =>
  (['memory', 'io', 'cpu'] as const)
    .map((of) => `${of}\u00a0${psi[of] === null ? '?' : `${Math.round(psi[of].some.avg10)}\u00a0%`}`)
    .join(', ');

function evictionTile(
  { node, pods, signals }: StatusReport,
  { pods: ranked, victim, unproven, podsUnknown }: ExplainReport,
): Said {
  const first = ranked.find(({ uid }) => uid === victim);
  const next = first === undefined ? [] : ['first: ', nameOf(podName(first))];
  if (node.dryRun)
    return ['warn', 'Dry run', next.length > 0 ? [...next, ', but it would not be stopped'] : ['nothing is stopped']];
  if (!signals.some(({ thresholds }) => thresholds.length > 0)) return ['warn', 'Off', ['no threshold is configured']];
  if (podsUnknown !== null || !pods.known) return ['warn', 'Pods unknown', ['no pod is chosen']];
  if (ranked.length === 0) return ['warn', 'No pods', ['nothing can be evicted']];
  return first === undefined
    ? ['warn', 'Armed', [unproven === null ? 'but no pod may be evicted' : 'but no pod is chosen']]
    : ['ok', 'Armed', next];
}

function shutdownTile({ shutdown: { lock }, node }: StatusReport): Said {
  switch (lock.kind) {
    case 'off':
      return ['plain', 'Off', [node.dryRun ? 'a dry run holds no lock' : 'no shutdown grace period is set']];
    case 'released':
      return ['bad', 'Released', ['the machine is going down']];
    case 'armed':
      return [
        'ok',
        'Armed',
        [`needs ${sayFor(lock.neededMs)}, logind grants ${sayFor(lock.grantedMs)}; proven ${sayAgo(lock.provenAgoMs)}`],
      ];
    case 'not-armed':
      return [
        'bad',
        'Not armed',
        [lock.isHeld ? 'the lock is held, and the phases shrink' : 'no lock is held: logind would not wait'],
      ];
  }
}
