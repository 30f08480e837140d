import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { effective } from '../../config/guard/a-guard-config.ts';

/** Armed, every other field as users have it by default, with one method `vm NODE` for each node. */
export const DEFAULTS: GuardConfig = {
  ...effective('dryRun: false\nfencing: { templates: {} }').core,
  defaultPlan: { isolation: [], levels: [['vm {node}']] },
};

/** With a short label, and a patrol that has asked every device of a small cluster in a few minutes. */
export const aGuardConfig = (rest: Partial<GuardConfig> = {}): GuardConfig => ({
  ...DEFAULTS,
  domainLabels: ['zone'],
  patrol: { everyMs: 30_000, maxPerMinute: 60 },
  ...rest,
});
