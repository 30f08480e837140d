import { needsPerson } from '../../core/guard/record.ts';
import { READ_AWAY_MS } from '../../core/guard/self.ts';
import type { GuardLive, GuardReport, ShownRecord } from '../../guard/shown.ts';
import { counted, sayCode } from '../../words/phrases.ts';
import { type Said, sayVerdict, tile, type Verdict } from '../both-pages.ts';
import { byId, el, keep, nameOf, setText } from '../dom.ts';
import { sayAgo, sayFor } from '../say.ts';
import { allOf, sayClasses } from './nodes-view.ts';

/** Which guard this is. */
export function showHead({ writer, node, version, file, dryRun, leader, configHash }: GuardReport): void {
  const role = leader.isLeader ? 'leads' : 'standby';
  setText(byId('guard'), writer);
  document.title = `${role} · nodewarden guard`;
  const facts = [`nodewarden ${version}`, ...(node === null ? [] : [`on node ${node}`])];
  keep(
    byId('facts'),
    facts.map((fact) => el('span', {}, fact)),
  );
  byId('dry').hidden = !dryRun;
  keep(byId('foot'), [
    el('p', {}, 'Configuration: ', el('code', {}, file), `, hash ${configHash}. This page is read-only.`),
  ]);
}

export function showVerdict(answer: GuardLive): void {
  sayVerdict(verdictOf(answer));
}

function verdictOf(answer: GuardLive): Verdict {
  const { status, old, nodesUnknown } = answer;
  const why = [...(nodesUnknown === null ? [] : [`No node is known: ${nodesUnknown}.`]), ...oldOf(old)];
  return status.leader.isLeader ? asLeader(answer, why) : asStandby(answer, why);
}

const oldOf = (old: string | null): readonly string[] =>
  old === null ? [] : [`What is shown of the nodes may be old: ${old}.`];

function asStandby({ status, old, nodesUnknown }: GuardLive, why: readonly string[]): Verdict {
  const { holder, heldBack } = status.leader;
  const seen = 'It shows what it sees of nodes and records. What is decided, and why, only the guard that leads knows.';
  const notRunning = heldBack === null ? [] : [`It does not run for leadership: ${sayCode(heldBack)}.`];
  const all = [...notRunning, seen, ...why];
  if (holder === null) return { level: 'bad', text: 'Standby, and no guard is known to lead', why: all };
  const level = old === null && nodesUnknown === null && heldBack === null ? 'ok' : 'warn';
  return { level, text: `Standby: ${holder} leads`, why: all };
}

function asLeader(answer: GuardLive, why: readonly string[]): Verdict {
  const { status, fencings, gates, nodesUnknown } = answer;
  const [self] = gates;
  const lasting = status.storms.filter(({ overMs }) => overMs === null);
  const records = fencings.rows.map(({ record }) => record);
  const bad = records.filter(({ phase }) => needsPerson(phase));
  const open = records.filter(({ phase }) => phase !== 'left-off' && phase !== 'aborted');
  const nothingNew = self?.isOpen === false ? [`Nothing new is begun: ${self.why ?? ''}.`] : [];
  const storm =
    lasting.length === 0
      ? []
      : [
          `Held by a storm: ${some(
            lasting.map(({ scope }) => scope),
            '; ',
          )}.`,
        ];
  const held = status.nodes.dead > 0 ? [`${counted(status.nodes.dead, 'node')} dead.`] : [];
  const rest = [...storm, ...nothingNew, ...held, ...why];
  if (bad.length > 0) return { level: 'bad', text: `A person must look at ${names(bad)}`, why: rest };
  if (open.length > 0) return { level: 'bad', text: `Fencing ${names(open)}`, why: rest };
  if (lasting.length > 0) {
    const silent = status.nodes.dead + status.nodes.suspect + status.nodes.planned;
    return { level: 'bad', text: `Storm: ${counted(silent, 'node')} silent, and held`, why: rest };
  }
  if (status.paused !== null) {
    const { by, because } = status.paused;
    return { level: 'warn', text: `Paused by ${by}`, why: [because, ...rest] };
  }
  if (nodesUnknown !== null) return { level: 'warn', text: 'No node is known yet', why: [...nothingNew, ...why] };
  if (self?.isOpen === false)
    return { level: 'warn', text: 'Nothing new is begun', why: [`${self.why ?? ''}.`, ...held, ...why] };
  const { healthy, dead, suspect } = status.nodes;
  if (dead > 0) return { level: 'warn', text: `${counted(dead, 'node')} dead`, why };
  if (suspect > 0) return { level: 'warn', text: `${counted(suspect, 'node')} silent`, why };
  if (allOf(status.nodes) === 0) return { level: 'warn', text: 'The cluster has no nodes', why };
  if (healthy === allOf(status.nodes)) return { level: 'ok', text: 'Every node is healthy', why };
  return {
    level: 'ok',
    text: 'No node is silent without being announced',
    why: [`Nodes: ${sayClasses(status.nodes)}.`, ...why],
  };
}

const names = (records: readonly ShownRecord[]): string =>
  some(
    records.map(({ node }) => node.name),
    ', ',
  );

const NAMED = 3;
function some(all: readonly string[], between: string): string {
  const more = all.length - NAMED;
  return `${all.slice(0, NAMED).join(between)}${more > 0 ? ` and ${more} more` : ''}`;
}

export function showTiles({ status }: GuardLive): void {
  keep(byId('tiles'), [
    tile('Leader', ...leaderTile(status)),
    tile('Mode', ...modeTile(status)),
    tile('Nodes', ...nodesTile(status)),
    tile('API server', ...apiTile(status)),
  ]);
}

function leaderTile({ leader }: GuardReport): Said {
  const { isLeader, holder, epoch, authorityMs } = leader;
  if (isLeader) return ['ok', 'This guard', [`epoch ${epoch}, authority for another ${sayFor(authorityMs ?? 0)}`]];
  if (holder === null) return ['bad', 'Nobody known', ['this guard is on standby']];
  return ['plain', 'Another guard', [nameOf(holder)]];
}

function modeTile({ dryRun, settling, paused, leader }: GuardReport): Said {
  if (dryRun) return ['warn', 'Dry run', ['it fences nobody']];
  if (!leader.isLeader) return ['plain', 'Armed', ['but it acts only while it leads']];
  if (paused !== null) return ['warn', 'Armed, paused', [`by ${paused.by}`]];
  if (settling !== null)
    return ['warn', 'Armed, settling', [`for another ${sayFor(settling.leftMs)} (${sayCode(settling.for)})`]];
  return ['ok', 'Armed', ['a dead node is fenced once all gates are open']];
}

function nodesTile({ nodes, devices, leader }: GuardReport): Said {
  const { dead, suspect } = nodes;
  const level = dead > 0 ? 'bad' : suspect > 0 ? 'warn' : 'plain';
  const said = leader.isLeader
    ? `Devices: ${devices.on} on, ${devices.off} off, ${devices.unknown} without an answer`
    : 'Devices are asked by the guard that leads';
  return [level, sayClasses(nodes), [said]];
}

function apiTile({ api }: GuardReport): Said {
  const age = (ms: number | null): string => (ms === null ? 'none yet' : sayAgo(ms));
  const level = api.readMs === null || api.readMs > READ_AWAY_MS ? 'warn' : 'plain';
  return [
    level,
    `Leases listed ${age(api.readMs)}`,
    [`watches heard ${age(api.heardMs)}, own write ${age(api.writeMs)}`],
  ];
}

/** Devices that said what cannot be true, as findings. */
export const sayNotBelieved = ({ contradicted }: GuardReport): GuardReport['findings'] =>
  contradicted.map(({ node, method, why }) => ({
    id: `device ${node} ${method}`,
    text: `${node}: the device ${method} is not believed: ${sayCode(why)}`,
  }));
