import { describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import type { Observation } from '../../src/core/observation.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import type { InhibitorStatus, RecordNote, ShutdownFact } from '../../src/ports.ts';
import { createProgress, sayLock } from '../../src/shutdown/progress.ts';
import { aPod, NOT_ASKED } from '../a.ts';
import { aCore, aShutdownConfig, CANCELLED, db, dns, LOCK, PREPARING, web } from '../core/shutdown/a-shutdown.ts';

const STATUS: InhibitorStatus = {
  lock: { kind: 'off' },
  isPreparing: true,
  type: 'reboot',
  scheduled: null,
  isKubeletArmed: null,
};
const START = { shutdownEvents: [LOCK, PREPARING] };

/** A core whose looks are followed; `facts` are those of the record, `lines` those that people see. */
function followed(
  pods: readonly PodView[],
  config = aShutdownConfig(),
  hasEnded = (_: string) => false,
  earlier: { readonly state: State; readonly decisions: readonly Decision[] } | null = null,
) {
  const facts: ShutdownFact[] = [];
  const lines: string[] = [];
  const logged: string[] = [];
  const log = ({ event }: { readonly event: string }) => void logged.push(event);
  const adopted = earlier?.state ?? initialState('boot');
  const core = aCore(config, pods, adopted);
  const progress = createProgress({
    log: { debug: log, info: log, warn: log, error: log },
    note: (note: RecordNote) => void (note.kind === 'shutdown' && facts.push(note.fact)),
    show: (line) => void lines.push(line),
    inhibitor: () => STATUS,
    hasEnded,
    adopted,
    left: (of) => ({ decision: earlier?.decisions.find(({ id }) => id === of) ?? null }),
  });
  const look = (atMs: number, rest: Partial<Observation> = {}) => {
    const verdict = core.look(atMs, rest);
    progress.seen({ ...OBSERVED, pods: known(pods), atMs, shutdownEvents: [], outcomes: [], ...rest }, verdict);
    return verdict;
  };
  return { look, ended: core.ended, facts, lines, logged };
}
const OBSERVED = { cpuMs: 0, wallMs: 0 } as unknown as Observation;

describe('a shutdown that is followed', () => {
  it('is reported as going on if the next one is announced while the phases of the cancelled one run', () => {
    const { look, ended, facts, lines } = followed([web], aShutdownConfig({ shutdownCancel: 'afterPhases' }));
    look(0, START);
    look(1_000, { shutdownEvents: [CANCELLED] });
    look(2_000, { shutdownEvents: [PREPARING] });
    look(3_000, { shutdownEvents: [CANCELLED, PREPARING] });
    const anew = { what: 'cancel-not-honoured', isAnew: true };
    expect(facts.slice(2)).toMatchObject([{ what: 'cancelled' }, anew, { what: 'cancelled' }, anew]);
    expect(lines.at(-1)).toContain('the next one is announced');
    // Its delay began anew.
    look(600_001, { outcomes: [ended(web, 600_001)], pods: known([]) });
    expect(facts.at(-1)).toEqual({ what: 'released', why: 'all-phases-done' });
  });

  it('is reported from its signal to the release, in order, once', () => {
    const { look, ended, facts, logged } = followed([web, db]);
    look(0, START);
    look(1_000);
    look(2_500, { outcomes: [ended(web, 2_500)], pods: known([db]) });
    look(4_000, { outcomes: [ended(db, 4_000)], pods: known([]) });
    look(5_000);
    expect(facts).toMatchObject([
      { what: 'began', tier: 'logind', type: 'reboot', grantedMs: 600_000, limitMs: null },
      { what: 'phase', phase: 1, periodMs: 20_000, wantedMs: 20_000, pods: ['default/web'] },
      { what: 'phase-over', phase: 1, tookMs: 2_500, by: 'done', running: [] },
      { what: 'phase', phase: 2, pods: ['default/db'] },
      { what: 'phase-over', phase: 2, tookMs: 1_500, by: 'done' },
      { what: 'released', why: 'all-phases-done' },
    ]);
    expect(logged).toEqual(['shutdown', 'phase', 'phase', 'phase', 'phase', 'released']);
  });

  it('that is cancelled after its release says so, even if nothing was stopped', () => {
    const { look, facts, logged } = followed([]);
    look(0, START);
    look(1_000, { shutdownEvents: [CANCELLED] });
    expect(facts.at(-1)).toMatchObject({ what: 'cancelled', why: 'after the lock was released' });
    expect(logged.at(-1)).toBe('cancelled');
  });

  it('names the pods that still run at the end of a phase', () => {
    const { look, lines } = followed([web]);
    look(0, START);
    look(20_000);
    expect(lines).toContain('shutdown phase 1 is over after 20s: its time is used up; still running: default/web');
  });

  it('names the pods that still run when it is cancelled, also for a run of the agent that has not seen them', () => {
    const said = 'shutdown phase 1 is over after 1s: the shutdown was cancelled; still running: default/web';
    const { look, lines } = followed([web]);
    const earlier = look(0, START);
    look(1_000, { shutdownEvents: [CANCELLED], pods: NOT_ASKED });
    expect(lines).toContain(said);
    const next = followed([web], undefined, undefined, earlier);
    next.look(1_000, { shutdownEvents: [CANCELLED], pods: NOT_ASKED });
    expect(next.lines).toContain(said);
  });

  it('does not name a pod as still running that has ended since the look', () => {
    const ended = new Set<string>();
    const { look, facts, lines } = followed([web, db], undefined, (of) => ended.has(of));
    const { decisions } = look(0, START);
    for (const { id } of decisions) ended.add(id);
    look(20_000);
    expect(facts).toContainEqual(expect.objectContaining({ what: 'phase-over', phase: 1, by: 'period', running: [] }));
    expect(lines).toContain('shutdown phase 1 is over after 20s: its time is used up');
  });

  it("that an agent which stood still finishes after logind's delay was ended by logind, and says so", () => {
    const { look, ended, facts, lines } = followed([web, db]);
    look(0, { shutdownEvents: [{ kind: 'lock-granted', delayMaxMs: 32_000 }, PREPARING] });
    look(32_100, { outcomes: [ended(web, 32_000)], pods: known([db]) });
    expect(facts.at(-1)).toEqual({ what: 'released', why: 'all-phases-done', delayMs: 32_000 });
    expect(lines.at(-1)).toBe('shutdown: logind went on when its delay of 32s was over, before the phases were');
  });

  it('whose delay was over before it should have been says that systemd went on', () => {
    const { look, ended, facts, lines } = followed([web, db]);
    look(0, { shutdownEvents: [{ kind: 'lock-granted', delayMaxMs: 92_000 }, PREPARING] });
    look(1_000, { shutdownEvents: [{ kind: 'stopped-without-signal', leftMs: 85_000 }] });
    look(2_000, { outcomes: [ended(web, 2_000)], pods: known([db]) });
    look(3_000, { outcomes: [ended(db, 3_000)], pods: known([]) });
    expect(facts.at(-1)).toEqual({ what: 'released', why: 'all-phases-done', isOvertaken: true });
    expect(lines.at(-1)).toBe('shutdown: systemd began to stop everything before the phases were over; they are now');
  });

  it('reports how its phases shrink (D11)', () => {
    const { look, facts, lines } = followed([web]);
    look(0, { shutdownEvents: [{ kind: 'lock-granted', delayMaxMs: 9_000 }, PREPARING] });
    expect(facts).toMatchObject([
      { what: 'began', grantedMs: 9_000, limitMs: 7_000 },
      { what: 'phase', periodMs: 7_000, wantedMs: 20_000 },
    ]);
    expect(lines.at(-1)).toBe(
      'shutdown phase 1: stopping 1 pod, waiting at most 7s of its configured 20s: default/web',
    );
  });

  it('is reported without pods, too', () => {
    const { look, facts } = followed([]);
    look(0, START);
    expect(facts.map(({ what }) => what)).toEqual(['began', 'released']);
  });

  it('with a phase without time reports its end after its beginning', () => {
    const phases = [
      { fromPriority: 0, periodSeconds: 0 },
      { fromPriority: 1_000, periodSeconds: 10 },
    ];
    const { look, facts } = followed([web, db], aShutdownConfig({ phases }));
    look(0, START);
    expect(facts.map((fact) => `${fact.what}${'phase' in fact ? ` ${fact.phase}` : ''}`)).toEqual([
      'began',
      'phase 1',
      'phase-over 1',
      'phase 2',
    ]);
  });

  it('reports a cancel, and the result of a second shutdown', () => {
    const { look, facts } = followed([web]);
    look(0, START);
    look(1_000, { shutdownEvents: [CANCELLED] });
    look(2_000, { shutdownEvents: [PREPARING], pods: known([db]) });
    expect(facts.map(({ what }) => what)).toEqual(['began', 'phase', 'phase-over', 'cancelled', 'began', 'phase']);
  });

  it('reports a lost lock, and a pod that comes back', () => {
    const slow = aPod({ name: 'slow' });
    const { look, ended, facts, logged } = followed([web, slow]);
    look(0, { ...START, wallMs: 1_000_000 });
    look(1_000, { wallMs: 1_001_000, outcomes: [ended(web, 1_000)], pods: known([slow]) });
    const back = { ...web, startedAtWallMs: 1_001_500 };
    look(2_000, {
      wallMs: 1_002_000,
      pods: known([back, slow]),
      shutdownEvents: [{ kind: 'lock-lost', detail: 'the child is gone' }],
    });
    expect(facts.slice(2)).toEqual([
      { what: 'lock-lost', detail: 'the child is gone' },
      { what: 'stopped-again', pod: 'default/web', times: 0 },
    ]);
    expect(logged.slice(-2)).toEqual(['not-armed', 'phase']);
  });

  it('names pods that have ended before their phase began', () => {
    const { look, ended, facts, lines } = followed([web, db, dns]);
    look(0, START);
    look(1_000, { outcomes: [ended(web, 1_000)], pods: known([]) });
    const gone = (phase: number, pod: string) => ({ what: 'gone', phase, pods: [pod] });
    expect(facts.slice(2)).toMatchObject([
      { what: 'phase-over', phase: 1 },
      gone(2, 'default/db'),
      gone(3, 'default/dns'),
      { what: 'released' },
    ]);
    expect(lines).toContain('shutdown phase 2: ended before it: default/db');
  });

  it('names those of later phases when it is cancelled, but none that was stopped, or still runs', () => {
    const { look, ended, facts } = followed([web, db, dns]);
    look(0, START);
    look(1_000, { outcomes: [ended(web, 1_000)], pods: known([db, dns]) });
    look(2_000, { outcomes: [ended(db, 2_000)], pods: known([]), shutdownEvents: [CANCELLED] });
    expect(facts.slice(-2)).toMatchObject([
      { what: 'gone', phase: 3, pods: ['default/dns'] },
      { what: 'cancelled', phase: 2 },
    ]);
    expect(facts.filter(({ what }) => what === 'gone')).toHaveLength(1);
  });
});

describe('the lock in one line', () => {
  it.each([
    [{ kind: 'off' } as const, 'shutdown off'],
    [{ kind: 'armed', neededMs: 30_000, grantedMs: 32_000, provenMs: 0 } as const, 'shutdown armed, 32s granted'],
    [
      { kind: 'not-armed', neededMs: 30_000, grantedMs: 5_000, isHeld: true, why: '/etc/x sets 5' } as const,
      'shutdown NOT armed: /etc/x sets 5',
    ],
    [{ kind: 'released' } as const, 'the shutdown lock is released'],
  ])('describes %o', (lock, said) => {
    expect(sayLock({ ...STATUS, lock })).toBe(said);
  });
});
