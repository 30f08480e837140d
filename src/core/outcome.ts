import type { DecisionId } from './decision.ts';
import type { ProcessView } from './pod.ts';
import type { MonoMs, Reading } from './reading.ts';

export type Outcome = { readonly of: DecisionId; readonly atMs: MonoMs } & (
  | { readonly kind: 'reclaimed'; readonly freed: Reading<number> }
  | {
      readonly kind: 'ended';
      readonly via: 'sigterm' | 'sigkill' | 'cgroup.kill' | 'stop-unit' | 'api';
      readonly releasedBytes: Reading<number>;
    }
  | { readonly kind: 'survived'; readonly left: readonly ProcessView[]; readonly detail: string }
  | { readonly kind: 'dropped'; readonly because: 'no-longer-met' | 'gone' | 'dry-run' }
);
