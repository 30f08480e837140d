import type { Misplaced } from '../daemon/own-files.ts';
import { RECORD_KEPT, RECORD_MAX_BYTES } from '../host/own/record-disk.ts';
import * as say from '../words/doctor.ts';
import {
  AGENT_SHOWS,
  type Check,
  type Found,
  fine,
  found,
  foundOr,
  isTaken,
  NOT_APPLICABLE,
  unknownBecause,
} from './check.ts';
import type { Facts, ServiceFacts } from './facts.ts';

const RECORD_BYTES = (RECORD_KEPT + 1) * RECORD_MAX_BYTES;
const RECORD_INODES = 100;

const RUNS = ['active', 'activating', 'reloading', 'deactivating'];
const hasFailed = ({ activeState, result }: ServiceFacts): boolean =>
  activeState === 'failed' || (!RUNS.includes(activeState) && result !== 'success' && result !== '');

const keepsFromStarting =
  (effective: Facts['effective']) =>
  ({ path }: Misplaced): boolean =>
    effective.known && path === effective.value.runtimeDirectory;
/** A link in the place of a file. */
const isDistrusted = ({ kind, expected }: Misplaced): boolean => kind === 'symbolic link' && expected === 'file';
const sayMisplaced = ({ path, kind, expected }: Misplaced): Found => ({
  text: say.misplaced(path, kind, expected),
  mend: 'mv <path> <path>.old',
  fill: { path },
});

export const AGENT = {
  'agent-not-running': {
    weight: 'blocking',
    asks: 'whether the agent runs',
    mend: 'systemctl start nodewarden',
    judge: ({ agent: { status, isRunning } }) => {
      if (isRunning === false && !status.known) return found({ text: say.agentNotRunning(status.where) });
      if (!status.known) return unknownBecause(status);
      const { version, mode, pid } = status.value.node;
      return fine(say.agentRuns(version, mode, pid));
    },
  },
  'agent-failed': {
    weight: 'blocking',
    asks: 'whether the last start of the agent failed',
    mend: 'journalctl -u nodewarden -n 20',
    judge: ({ agent: { service } }) => {
      if (!service.known) return NOT_APPLICABLE;
      const { result, exitStatus } = service.value;
      return hasFailed(service.value) ? found({ text: say.agentFailed(result, exitStatus) }) : NOT_APPLICABLE;
    },
  },
  'agent-not-enabled': {
    weight: 'warning',
    asks: 'whether the agent starts at boot',
    mend: 'systemctl unmask nodewarden && systemctl enable nodewarden',
    judge: ({ agent: { service } }) => {
      if (!service.known) return unknownBecause(service);
      const { loadState, unitFileState } = service.value;
      if (loadState === 'not-found') return found({ text: say.notInstalled });
      // Not enabled-runtime, which a boot forgets.
      if (unitFileState === 'enabled') return fine(say.isEnabled);
      return found({ text: say.notEnabled(unitFileState === '' ? loadState : unitFileState) });
    },
  },
  'agent-version': {
    weight: 'warning',
    asks: 'whether agent and command are of one version',
    mend: 'systemctl restart nodewarden',
    judge: ({ agent: { status } }, version) => {
      if (!status.known) return NOT_APPLICABLE;
      const other = status.value.node.version;
      return other === version ? NOT_APPLICABLE : found({ text: say.otherVersion(other, version) });
    },
  },
  'dry-run': {
    weight: 'warning',
    asks: 'whether this is a dry run',
    mend: 'nodewarden history --evictions',
    judge: ({ agent: { status }, effective }) => {
      const isConfigured = effective.known && effective.value.dryRun;
      const isRunning = status.known ? status.value.node.dryRun : isConfigured;
      if (isRunning) return found({ text: say.dryRun(isConfigured ? 'configuration' : 'option') });
      if (isConfigured) return found({ text: say.notDryYet, mend: 'nodewarden status' });
      return NOT_APPLICABLE;
    },
  },
  'own-directories': {
    weight: 'blocking',
    asks: "whether the agent's directories are safe to use",
    mend: 'ls -ld <runtime> <state>',
    judge: ({ places: { distrusted, misplaced }, effective }) => {
      if (!distrusted.known) return unknownBecause(distrusted);
      if (distrusted.value !== null) return found({ text: distrusted.value });
      if (misplaced.length === 0) return fine(say.placesFine);
      return foundOr(misplaced.filter(keepsFromStarting(effective)).map(sayMisplaced), NOT_APPLICABLE);
    },
  },
  'own-file-unusable': {
    weight: 'warning',
    asks: "whether the agent's files can be used",
    mend: 'mv <path> <path>.old',
    judge: ({ places: { misplaced }, effective }) => {
      const others = misplaced.filter((one) => !keepsFromStarting(effective)(one) && !isDistrusted(one));
      return foundOr(others.map(sayMisplaced), NOT_APPLICABLE);
    },
  },
  'record-space': {
    weight: 'warning',
    asks: 'whether the record has room',
    mend: 'df -h <path>',
    judge: ({ places: { recordFree, recordPath } }) => {
      // The agent creates it at its start.
      if (!recordFree.known) return recordFree.why === 'absent' ? NOT_APPLICABLE : unknownBecause(recordFree);
      const { bytes, inodes } = recordFree.value;
      const fill = { path: recordPath };
      if (bytes < RECORD_BYTES) return found({ text: say.recordFull(recordPath, bytes, 'bytes'), fill });
      if (inodes !== null && inodes < RECORD_INODES)
        return found({ text: say.recordFull(recordPath, inodes, 'inodes'), fill });
      return fine(say.recordRoom(recordPath, bytes));
    },
  },
} satisfies { readonly [code: string]: Check };

/** All other findings of the running agent; `taken`: those that another check reports. */
export const agentFinding = (taken: readonly string[]): Check => ({
  weight: 'warning',
  asks: 'whether the agent has found anything else',
  mend: AGENT_SHOWS,
  judge: ({ agent: { status } }) => {
    if (!status.known) return NOT_APPLICABLE;
    const others = status.value.findings.filter((finding) => !isTaken(finding, taken));
    return foundOr(
      others.map(({ text }) => ({ text })),
      fine(say.noOtherFindings),
    );
  },
});
