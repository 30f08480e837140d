import { sayBytes } from '../core/units/quantity.ts';
import type { Adoption, Proposal } from '../standalone/adopt.ts';
import { ownCommand } from '../words/own-command.ts';
import { clean, type Paint, table } from './print.ts';

const NO_SYSTEMD =
  'No systemd runs here. These are cgroups that have processes: whatever created them may restart what is stopped.\n';

type Where = {
  readonly directory: string;
  /** The written files; null: none were requested. */
  readonly written: readonly string[] | null;
  /** The agent that runs here evicts by what is in the directory. */
  readonly isLive: boolean;
  /** The configuration that was named. */
  readonly config: string | null;
};

export function adoptText({ source, proposals, leftOut }: Adoption, where: Where, paint: Paint): string {
  const { directory, written } = where;
  const said = (bytes: number | null): string => (bytes === null ? '-' : sayBytes(bytes));
  const rows = proposals.map(({ name, workingSetBytes, peakBytes, requestBytes, priority, role }) => [
    clean(name),
    said(workingSetBytes),
    said(peakBytes),
    said(requestBytes),
    String(priority),
    role,
  ]);
  const sections = [
    source === 'systemd' ? '' : NO_SYSTEMD,
    rows.length === 0
      ? 'Everything running here is already declared or belongs to the system.\n'
      : table(['NAME', 'MEMORY', 'PEAK', 'REQUEST', 'PRIORITY', 'ROLE'], rows, [1, 2, 3, 4]),
    leftOut.length === 0
      ? ''
      : `${paint('bold', 'Left out')}\n${leftOut.map(({ name, why }) => `  ${clean(name)}: ${clean(why)}\n`).join('')}`,
    written === null ? proposals.map((proposal) => manifestText(proposal, directory, paint)).join('\n') : '',
    nextText(proposals, where),
  ];
  return sections.filter(Boolean).join('\n');
}

const manifestText = ({ file, manifest }: Proposal, directory: string, paint: Paint): string =>
  `${paint('bold', `--- ${clean(directory)}/${file}`)}\n${manifest}`;

function nextText(proposals: readonly Proposal[], { directory, written, isLive, config }: Where): string {
  if (proposals.length === 0) return '';
  const check = ownCommand('nodewarden config check', config);
  if (written === null) {
    const then = isLive
      ? 'The agent that runs here is no dry run and would evict by them at once: set dryRun: true first.\n'
      : '';
    return `Nothing was written. ${ownCommand('nodewarden adopt --write', config)} writes these files to ${clean(directory)}.\n${then}`;
  }
  if (written.length === 0) return '';
  const files = written.map((path) => `wrote ${clean(path)}\n`).join('');
  if (isLive)
    return `${files}They are in force now: the agent that runs here is no dry run. To try them first, set dryRun: true; then review them: ${check}.\n`;
  return `${files}Review them, then: ${check}, and ${ownCommand('nodewarden run --dry-run', config)} (or dryRun: true).\n`;
}
