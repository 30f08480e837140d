import { AGENT_TARGETS } from './agent-targets.ts';
import { DOCUMENT_TARGETS } from './document-targets.ts';
import { GUARD_CONFIG_TARGETS } from './guard-config-targets.ts';
import { KERNEL_TARGETS } from './kernel-targets.ts';
import { NUMBER_TARGETS } from './number-targets.ts';
import { PLANTED_TARGETS } from './planted-targets.ts';
import { SCENARIO_TARGETS } from './scenario-targets.ts';
import { STATE_TARGETS } from './state-targets.ts';
import type { Target } from './target.ts';

/** Every reader of outside text. */
export const TARGETS: readonly Target[] = [
  ...NUMBER_TARGETS,
  ...DOCUMENT_TARGETS,
  ...SCENARIO_TARGETS,
  ...STATE_TARGETS,
  ...KERNEL_TARGETS,
  ...AGENT_TARGETS,
  ...GUARD_CONFIG_TARGETS,
];
export const ALL_TARGETS: readonly Target[] = [...TARGETS, ...PLANTED_TARGETS];
