import { type Check, withAgentsWord } from './check.ts';
import { AGENT, agentFinding } from './checks-agent.ts';
import { CONFIGURATION } from './checks-configuration.ts';
import { HOST } from './checks-host.ts';
import { KUBELET } from './checks-kubelet.ts';
import { PODS } from './checks-pods.ts';
import { SHUTDOWN } from './checks-shutdown.ts';

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
