import { describe, expect, it } from 'vitest';
import { painter } from '../../src/cli/print.ts';
import { shutdownText } from '../../src/cli/shutdown-text.ts';
import { initialState } from '../../src/core/state/state.ts';
import type { LockStatus, ShutdownStatus } from '../../src/serve/shutdown-status.ts';
import { statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation } from '../a.ts';
import { aContext, aVerdict } from '../serve/a-report.ts';

const ARMED: LockStatus = { kind: 'armed', neededMs: 30_000, grantedMs: 35_000, provenAgoMs: 12_300 };
const STATUS: ShutdownStatus = {
  lock: ARMED,
  phases: [
    { phase: 1, fromPriority: 0, periodSeconds: 20, pods: 3 },
    { phase: 2, fromPriority: 2_000_000_000, periodSeconds: 10, pods: 0 },
  ],
  scheduled: null,
  running: null,
  last: null,
  stopTimeoutMs: 90_000,
  secondTier: true,
};

function said(shutdown: Partial<ShutdownStatus>, dryRun = false): string {
  const report = statusReport({
    observation: anObservation(0, {}),
    verdict: aVerdict(initialState('boot')),
    config: aConfig([]),
    context: aContext({ node: { ...aContext().node, dryRun } }),
  });
  return shutdownText({ ...report, shutdown: { ...STATUS, ...shutdown } }, painter(false));
}

describe('the shutdown in the status as text', () => {
  it('says that it is armed, when that was last proven, and what would be stopped when', () => {
    expect(said({})).toBe(`shutdown    armed: the phases need 30s, logind grants 35s, proven 12s ago
            phase 1: priorities below 2000000000: 20s, 3 pods now
            phase 2: priority 2000000000 and above: 10s, no pods now
            without logind's signal: the phases run within the agent's TimeoutStopSec (1m30s)
`);
  });

  it('says prominently that it is not armed, why, and what that means', () => {
    const lock = {
      kind: 'not-armed',
      neededMs: 30_000,
      grantedMs: 5_000,
      isHeld: true,
      why: '/etc/x says 5s',
    } as const;
    expect(said({ lock })).toContain(`shutdown    NOT ARMED: /etc/x says 5s
            logind grants 5s of the 30s needed; the lock is held, and the phases shrink to fit
`);
    const none = said({ lock: { ...lock, grantedMs: null, isHeld: false } });
    expect(none).toContain('an unknown part of the 30s needed; no lock is held, so logind would not wait\n');
  });

  it('is one line if shutdown is off, and says so in a dry run', () => {
    expect(said({ lock: { kind: 'off' }, phases: [] })).toBe('shutdown    off\n');
    expect(said({ lock: { kind: 'off' } }, true)).toMatch(/^shutdown {4}off: a dry run holds no lock\n/);
  });

  it('says what happens without the signal', () => {
    expect(said({ stopTimeoutMs: null })).toContain("within the agent's TimeoutStopSec (unknown)");
    expect(said({ stopTimeoutMs: 'infinity' })).toContain("within the agent's TimeoutStopSec (infinity)");
    expect(said({ secondTier: false })).toContain("without logind's signal: nothing is stopped in phases");
  });

  it('shows the clock times of a scheduled shutdown', () => {
    const atWallMs = Date.UTC(2026, 0, 31, 21, 59, 50);
    const span = (phase: number, from: number, to: number) => ({
      phase,
      startsWallMs: atWallMs + from * 1_000,
      endsWallMs: atWallMs + to * 1_000,
    });
    const scheduled = { type: 'poweroff', atWallMs, phases: [span(1, 0, 20), span(2, 20, 30)] };
    expect(
      said({ scheduled }),
    ).toContain(`            poweroff is scheduled for 2026-01-31 21:59:50 UTC; nothing is stopped before
            phase 1: 21:59:50 to 22:00:10 at the latest
            phase 2: 22:00:10 to 22:00:20 at the latest
`);
  });

  it('shows the running phase instead of the plan', () => {
    const running = {
      tier: 'logind',
      type: 'reboot',
      phase: 1,
      phaseLeftMs: 12_037,
      podsLeft: ['shop/web\x1b[2J', 'shop/db'],
      cancelled: false,
      cancelIgnored: false,
    } as const;
    expect(said({ running })).toBe(
      "shutdown    reboot (logind's signal): phase 1 of 2, 12s left, waiting for shop/web\\u001b[2J, shop/db\n",
    );
    const late = said({ running: { ...running, tier: 'stop', type: null, phase: 0, cancelled: true } });
    expect(late).toBe(
      'shutdown    the machine is going down (no signal from logind; systemd is stopping the agent): about to begin; cancelled, to be honoured after the last phase\n',
    );
  });

  it('ends with the last shutdown before this boot', () => {
    expect(said({ last: 'poweroff, all phases done\n' })).toMatch(/\n {12}last: poweroff, all phases done\\u000a\n$/);
  });
});
