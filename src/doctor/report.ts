import { sayUnknown } from '../words/doctor.ts';
import { ownCommand, shellWord, startCommand } from '../words/own-command.ts';
import { type Check, type Fill, type Result, type Weight, withAgentsWord } from './check.ts';
import { AGENT, agentFinding } from './checks-agent.ts';
import { CONFIGURATION } from './checks-configuration.ts';
import { HOST } from './checks-host.ts';
import { KUBELET } from './checks-kubelet.ts';
import { PODS } from './checks-pods.ts';
import { SHUTDOWN } from './checks-shutdown.ts';
import type { Facts } from './facts.ts';

/** What `doctor -o json` prints; docs/json.md describes every field. */
export type DoctorReport = {
  readonly schema: 1;
  readonly atWallMs: number;
  readonly node: string;
  readonly version: string;
  readonly nodeVersion: string;
  /** null: the configuration is invalid, and no last good one exists. */
  readonly mode: 'standalone' | 'kubelet' | null;
  /** null: it could not be asked. */
  readonly isAgentRunning: boolean | null;
  readonly findings: readonly Told[];
  /** What was checked without a finding. */
  readonly fine: readonly { readonly code: string; readonly text: string }[];
};
type Told = {
  readonly code: string;
  readonly kind: Weight | 'unknown';
  readonly text: string;
  /** A command; null for what is unknown. */
  readonly mend: string | null;
};
type Where = Pick<DoctorReport, 'atWallMs' | 'node' | 'version' | 'nodeVersion'>;

export function doctorReport(facts: Facts, where: Where): DoctorReport {
  const judged = Object.entries(CHECKS).map(([code, check]) => ({
    code,
    check,
    results: [check.judge(facts, where.version)].flat(),
  }));
  return {
    schema: 1,
    ...where,
    mode: facts.effective.known ? facts.effective.value.mode : null,
    isAgentRunning: facts.agent.isRunning,
    findings: judged.flatMap(({ code, check, results }) =>
      results.flatMap((result) => toldOf(code, check, result, facts)),
    ),
    fine: judged.flatMap(({ code, results }) =>
      results.flatMap((result) => (result.kind === 'fine' ? [{ code, text: result.text }] : [])),
    ),
  };
}

/** Directories in the commands, which the configuration may have moved. */
function placesOf({ effective }: Facts): Fill {
  if (!effective.known) return {};
  const { podManifests, runtimeDirectory, stateDirectory } = effective.value;
  return { manifests: podManifests, runtime: runtimeDirectory, state: stateDirectory };
}

function toldOf(code: string, check: Check, result: Result, facts: Facts): readonly Told[] {
  if (result.kind === 'unknown')
    return [{ code, kind: 'unknown', text: sayUnknown(check.asks, result.because), mend: null }];
  if (result.kind !== 'found') return [];
  return result.found.map(({ text, mend = check.mend, fill }) => ({
    code,
    kind: check.weight,
    text,
    mend: forNamed(filled(mend, { ...placesOf(facts), ...fill }), facts.named),
  }));
}

/** The same command for the configuration file that the user named. */
function forNamed(mend: string, named: string | null): string {
  if (mend === startCommand(null)) return startCommand(named);
  return mend.startsWith('nodewarden ') ? ownCommand(mend, named) : mend;
}

function filled(mend: string, fill: Fill): string {
  return mend.replace(/<([a-z]+)>/g, (blank, name: string) => {
    const values = fill[name] ?? [];
    const words = (typeof values === 'string' ? [values] : values).map(shellWord);
    return words.length === 0 ? blank : words.join(' ');
  });
}

const OWN: { readonly [code: string]: Check } = {
  ...CONFIGURATION,
  ...AGENT,
  ...PODS,
  ...HOST,
  ...SHUTDOWN,
  ...KUBELET,
};
const taken = Object.values(OWN).flatMap(({ takes = [] }) => takes);

/** Every check by its stable code, in the order of the output. */
export const CHECKS: { readonly [code: string]: Check } = {
  ...Object.fromEntries(Object.entries(OWN).map(([code, check]) => [code, withAgentsWord(check)])),
  'agent-finding': agentFinding(taken),
};
