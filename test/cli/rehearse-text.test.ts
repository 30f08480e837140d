import { describe, expect, it } from 'vitest';
import { painter } from '../../src/cli/print.ts';
import { type PhaseForm, rehearseText } from '../../src/cli/rehearse-text.ts';
import { aConfig, aPod } from '../a.ts';
import { CRITICAL, ended, type Given, NEVER, rehearsed, web } from './a-rehearsal.ts';

describe('the rehearsal as text', () => {
  const job = aPod({ name: 'job', namespace: 'shop', terminationGraceSeconds: 5 });
  const dns = aPod({ name: 'dns', priority: CRITICAL });
  const text = (given: Given, form: PhaseForm = 'durations') => rehearseText(rehearsed(given), form, painter(false));

  it('shows each phase with its pods, which cannot finish, what to set, and all times', () => {
    const given = {
      pods: [web, job, dns],
      observed: { web: { ...ended(2_500), stops: 3 }, job: { ...NEVER, unfinishedMs: 5_000 } },
      timeouts: { web: 90_000 },
    };
    expect(
      text(given),
    ).toBe(`node-1, 2023-11-14 22:13:20 UTC: rehearsal of a shutdown with the pods running now; nothing is changed
lock        armed: the phases need 30s, logind grants 35s, proven just now

phase 1     priorities below 2000000000: 20s, from 0s to 20s at most, until 5s judging by earlier stops
POD       PRIORITY  GETS  DECLARES  TIMEOUTSTOPSEC  EARLIER
shop/web         0   20s       30s           1m30s  2.5s in 3 stops                   finishes, judging by earlier stops
shop/job         0    5s        5s               -  still running after 5s, one stop  cannot finish: was still running after 5s, gets 5s

phase 2     priority 2000000000 and above: 10s, from 20s to 30s at most, until 15s judging by earlier stops
POD            PRIORITY  GETS  DECLARES  TIMEOUTSTOPSEC  EARLIER
default/dns  2000000000   10s       30s               -  -        may not finish: may take 30s, gets 10s

in total    30s at most, 15s if all stop as fast as before
no signal   without logind's signal, systemd gives the agent 1m30s to stop, 1m25s of it for the phases: enough
to set      shutdownGracePeriod: 50s (now 30s)
            shutdownGracePeriodCriticalPods: 30s (now 10s)
            terminationGracePeriodSeconds: 10 in the manifest of shop/job (now 5)

1 of 3 pods cannot finish in the time they get: shop/job
`);
  });

  it('names what to set in the form in which the phases are configured', () => {
    expect(text({ pods: [web] })).toContain(
      'to set      shutdownGracePeriod: 40s (now 30s); shutdownGracePeriodCriticalPods stays 10s\n',
    );
    expect(text({ pods: [web] }, 'list')).toContain(
      'to set      shutdownGracePeriodByPodPriority: {priority: 0, shutdownGracePeriodSeconds: 30} (now 20)\n',
    );
    expect(text({ timeouts: { web: 5_000 }, observed: { web: ended(5_001) } })).toContain(
      'to set      TimeoutStopSec=10 in web.service, the unit of shop/web (now 5)\n',
    );
  });

  it("proposes a stop timeout for the agent that fits the proposed phases without logind's signal", () => {
    const status = { stopTimeoutMs: 20_000 };
    const own = { ...job, terminationGraceSeconds: 20 };
    expect(text({ pods: [own, { ...dns, terminationGraceSeconds: 10 }], status })).toContain(
      'to set      TimeoutStopSec=35s of nodewarden.service (now 20s): systemctl edit nodewarden\n',
    );
    expect(text({ pods: [web], status }).match(/TimeoutStopSec=.*/g)).toEqual([
      'TimeoutStopSec=45s of nodewarden.service (now 20s): systemctl edit nodewarden',
    ]);
    // All that it needs fits into what is left.
    expect(text({ pods: [{ ...job, terminationGraceSeconds: 5 }], status })).not.toContain('TimeoutStopSec=');
  });

  it('says that no pod needs more time than it gets, or that nothing is stopped', () => {
    expect(text({ pods: [job] })).toMatch(/\n\nno pod is known to need more time than it gets \(1 pod\)\n$/);
    expect(text({ pods: [] })).toContain(
      'phase 1     priorities below 2000000000: 20s; no pods, so it takes no time\n',
    );
    expect(text({ pods: [] })).toMatch(/\n\nno pod is running: nothing would be stopped\n$/);
    expect(text({ config: aConfig([]) })).toMatch(/\nlock {8}off: no grace period is configured/);
  });

  it('escapes everything that a tenant could use against a terminal', () => {
    const hostile = aPod({ name: 'web\x1b[2J\nroot\u202e', namespace: 'shop' });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(text({ pods: [hostile] })).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });
});
