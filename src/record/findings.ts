import type { Clock, Finding, Findings, Log, RecordNote } from '../ports.ts';

export type FindingsNeeds = {
  readonly clock: Clock;
  readonly log: Log;
  readonly note: (note: RecordNote) => void;
};

/** Ids may name pods, which tenants make. Beyond the bound one finding says that there are more. */
const FINDINGS_MAX = 500;
const TOO_MANY: Finding = {
  id: 'too-many-findings',
  text: `there are more than ${FINDINGS_MAX} findings: further ones are not shown`,
};

/** A finding is logged and recorded once when it is raised and logged once when it is cleared; a new text replaces the old in silence. */
export function createFindings({ clock, log, note }: FindingsNeeds): Findings {
  const present = new Map<string, Finding>();
  const raise = (finding: Finding): void => {
    const isNew = !present.has(finding.id);
    if (isNew && present.size >= FINDINGS_MAX && finding.id !== TOO_MANY.id) {
      raise(TOO_MANY);
      return;
    }
    present.set(finding.id, finding);
    if (!isNew) return;
    log.warn({ event: 'finding', finding: finding.id }, finding.text);
    note({ kind: 'finding', atMs: clock.monoMs(), finding });
  };
  return {
    raise,
    clear: (id) => {
      const finding = present.get(id);
      if (finding === undefined) return;
      present.delete(id);
      if (present.size <= FINDINGS_MAX / 2) present.delete(TOO_MANY.id);
      log.info({ event: 'finding', finding: id, cleared: true }, `no longer so: ${finding.text}`);
    },
    all: () => [...present.values()],
  };
}
