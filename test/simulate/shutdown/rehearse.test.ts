import { describe, expect, it } from 'vitest';
import { type RehearsedStart, rehearse } from '../../../src/simulate/shutdown/rehearse.ts';
import { aConfig, aPod } from '../../a.ts';

const config = aConfig([], {
  phases: [
    { fromPriority: 0, periodSeconds: 20 },
    { fromPriority: 1_000, periodSeconds: 60 },
    { fromPriority: 2_000_000_000, periodSeconds: 10 },
  ],
});
const web = aPod({ name: 'web' });
const job = aPod({ name: 'job', terminationGraceSeconds: 5 });
const dns = aPod({ name: 'dns', priority: 2_000_000_000 });
const SIGNAL: RehearsedStart = { kind: 'logind', grantedMs: 90_000 };

/** `phase start-end`, then the grace of web, job and dns. */
function played(start: RehearsedStart, stopMs: { readonly [name: string]: number } = {}, shutdownCarryOver = false) {
  const pods = [web, job, dns].map((declared) => ({ declared, stopMs: stopMs[declared.name] ?? null }));
  const { phases, pods: stopped, totalMs } = rehearse({ ...config, shutdownCarryOver }, pods, start);
  return {
    phases: phases.map(({ phase, startMs, endMs }) => `${phase} ${startMs}-${endMs}`),
    graces: [web, job, dns].map(({ uid }) => stopped.get(uid)?.graceSeconds),
    totalMs,
  };
}

describe('a rehearsed shutdown', () => {
  it('lasts as long as the phases with pods may, if no pod is known to be faster', () => {
    expect(played(SIGNAL)).toEqual({ phases: ['1 0-20000', '3 20000-30000'], graces: [20, 5, 10], totalMs: 30_000 });
  });

  it('ends each phase with its slowest pod', () => {
    const stopMs = { web: 2_500, job: 1_000, dns: 500 };
    expect(played(SIGNAL, stopMs)).toEqual({
      phases: ['1 0-2500', '3 2500-3000'],
      graces: [20, 5, 10],
      totalMs: 3_000,
    });
  });

  it('passes on unused time if that is configured', () => {
    expect(played(SIGNAL, { web: 2_500, job: 1_000 }, true).graces).toEqual([20, 5, 30]);
  });

  it("shrinks the phases to what logind grants, or systemd leaves for the agent's stop", () => {
    const shrunk = { phases: ['1 0-10000', '3 10000-15000'], graces: [10, 5, 5], totalMs: 15_000 };
    expect(played({ kind: 'logind', grantedMs: 17_000 })).toEqual(shrunk);
    expect(played({ kind: 'stop', leftMs: 15_000 })).toEqual(shrunk);
  });

  it('is over at once without pods', () => {
    expect(rehearse(config, [], SIGNAL)).toEqual({ phases: [], pods: new Map(), totalMs: 0 });
  });
});
