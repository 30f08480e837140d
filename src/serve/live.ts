import type { ExplainReport } from './explain-report.ts';
import type { RehearseReport } from './rehearsal.ts';
import type { StatusReport } from './status.ts';

/** What `/api/live` answers: the present status, and its ranking as in `explain`. */
export type LiveAnswer = {
  readonly schema: 1;
  /** The agent's clock when it answered. */
  readonly nowWallMs: number;
  readonly status: StatusReport;
  readonly explain: ExplainReport;
};
/** What `/api/rehearsal` answers. */
export type RehearsalAnswer = {
  readonly schema: 1;
  /** The last one, as in `rehearse shutdown -o json`; null: there is none yet. */
  readonly rehearsal: RehearseReport | null;
  /** Why there is none from the last minute. */
  readonly why: string | null;
};
