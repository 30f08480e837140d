import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { explainText } from '../../src/cli/explain-text.ts';
import { painter } from '../../src/cli/print.ts';
import { decide } from '../../src/core/decide.ts';
import type { ExplainedLook } from '../../src/core/explain.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import type { ObservedLook } from '../../src/daemon/observed-look.ts';
import { explainReport } from '../../src/serve/explain-report.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext } from '../serve/a-report.ts';
import { aCommand } from './a-command.ts';

const plain = painter(false);
const hostile = 'web\x1b[2J\nroot\u202e';
const shop = { namespace: 'shop' } as const;
const requesting = (memoryBytes: number) => ({ memoryBytes, ephemeralStorageBytes: 0 });
const web = aPod({ ...shop, name: 'web', workingSetBytes: 500 * MI, requests: requesting(200 * MI) });
const job = aPod({ ...shop, name: 'job', workingSetBytes: 299.5 * MI, requests: requesting(100 * MI) });
const db = aPod({ ...shop, name: 'db', priority: 1000, workingSetBytes: 900 * MI, requests: requesting(GI) });
const dns = aPod({ name: 'dns', isStaticCritical: true, priority: 2_000_000_000, workingSetBytes: GI });
const config = aConfig([
  aThreshold('memory.available', 100 * MI),
  aThreshold('memory.available', 200 * MI, { graceMs: 30_000 }),
]);
const SOURCE = {
  kind: 'live',
  node: 'node-1',
  mode: 'standalone',
  dryRun: false,
  atWallMs: 1_700_000_010_000,
} as const;

function aLook(availableBytes: number, pods: readonly PodView[] = [web, job, db, dns]): ExplainedLook {
  const signals = {
    'memory.available': { available: availableBytes, capacity: 4 * GI },
    'nodefs.available': { available: 50 * GI, capacity: 100 * GI },
    'pid.available': { available: 900, capacity: 1_000 },
  };
  const observation = anObservation(10_000, signals, { pods: known(pods) });
  const state = initialState('b');
  const { decisions, reasons } = decide(state, observation, config);
  return { observation, config, state, decisions, reasons };
}
const said = (look: ExplainedLook, signal: Signal | null = null, of: string | null = null) =>
  explainText(explainReport(look, SOURCE, { signal, of }), plain);

describe('the explanation as text', () => {
  it('says what the node does, which pod is evicted first and why, and what would change it', () => {
    expect(said(aLook(50 * MI))).toBe(`node-1, 2023-11-14 22:13:30 UTC
now         evict shop/web: memory.available 50 MiB is below 100 MiB
observed    memory.available 50 MiB of 4 GiB; hard below 100 MiB (met), soft below 200 MiB for 30s (met)
because     memory.available/evictionSoft: its grace period has 30s left

pods in eviction order for memory.available
#  POD            OVER-REQUEST      PRIORITY  USAGE-OVER-REQUEST
1  shop/web              yes             0             300 MiB *  evicted now
2  shop/job              yes             0 *         199.5 MiB
3  default/dns           yes *  2000000000               1 GiB    passed over: static or critical pods are never evicted
4  shop/db                no          1000            -124 MiB
order: over-request (yes first), then priority (lowest first), then usage-over-request (highest first); ties: newest first, then by name. * marks what put a pod before the next one

shop/web is chosen first; without it shop/job would be.
It would be safe below 399.5 MiB of memory, or with a priority above 0, or with a request of at least 300.5 MiB of memory, or if protected (nodewarden.dev/protect), or if nodewarden.dev/evict-for left out memory.
`);
  });

  it('shows a priority that is unknown as null', () => {
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const { pods } = explainReport(aLook(50 * MI, [{ ...web, unsaid }]), SOURCE, { signal: null, of: null });
    expect(pods.map(({ priority }) => priority)).toEqual([null]);
  });

  it('says in mode kubelet where the annotations that it names count', () => {
    const report = explainReport(aLook(50 * MI), { ...SOURCE, mode: 'kubelet' }, { signal: null, of: null });
    const only = 'only in a namespace of kubernetes.protectNamespaces';
    expect(explainText(report, painter(false))).toContain(
      `or if protected (nodewarden.dev/protect, ${only}), or if nodewarden.dev/evict-for left out memory (${only}).\n`,
    );
  });

  it('ranks even for a signal that is not short, and says that no eviction is needed', () => {
    const text = said(aLook(GI), 'pid.available', 'uid-db');
    expect(text).toContain('now         no eviction is needed: no threshold is met\n');
    expect(text).toContain('observed    pid.available 900 pids of 1000 pids; no threshold\n');
    expect(text).toContain(
      'pid.available has no threshold, so nothing is evicted for it; with one, pods would be evicted in this order\n',
    );
    expect(said(aLook(GI), 'memory.available')).toContain(
      'if memory.available ran short, pods would be evicted in this order\n',
    );
    expect(text).toContain(
      'shop/db is safe: shop/job is chosen first.\nIt would be chosen first with a priority below 1.\n',
    );
    expect(text).toContain('even if it used all that the node has, shop/job would come first by its lower priority.\n');
  });

  it('does not say that no threshold is met if a signal is unknown', () => {
    const memory = unknown('unreadable', '/proc/meminfo', 'EACCES');
    const observation = anObservation(10_000, { 'memory.available': memory }, { pods: known([web, job]) });
    const state = initialState('b');
    const { decisions, reasons } = decide(state, observation, config);
    const text = said({ observation, config, state, decisions, reasons });
    expect(text).toContain('now         no threshold is known to be met\n');
    expect(text).not.toContain('no eviction is needed');
  });

  it('rounds to the side on which the statement stays true', () => {
    const heavy = { ...job, usage: { ...job.usage, workingSetBytes: known(300 * MI + 1) } };
    const look = aLook(GI, [web, heavy]);
    // 1 byte more than 200 MiB above its request: above 400 MiB of memory the other one would not yet be first.
    expect(said(look, null, 'uid-web')).toContain('safe below 400 MiB of memory');
    const even = { ...web, usage: { ...web.usage, workingSetBytes: known(500 * MI + 1_000) } };
    expect(said(aLook(GI, [even, heavy]), null, 'uid-job')).toContain(
      'would be chosen first above 400.1 MiB of memory',
    );
  });

  it('says why a pod is never chosen, and when no pod may be', () => {
    expect(said(aLook(GI), null, 'uid-dns')).toContain(
      '\n\ndefault/dns is passed over: static or critical pods are never evicted.\n',
    );
    expect(said(aLook(50 * MI, [dns]))).toContain('no pod may be evicted\n');
    expect(said(aLook(50 * MI, []))).toContain('there are no pods: nothing can be evicted\n');
  });

  it('does not treat unmeasured directories as empty', () => {
    const disk = unknown('not-asked', 'disk', 'nobody needed it yet');
    const unmeasured = { ...web, usage: { ...web.usage, disk } };
    const text = said(aLook(GI, [unmeasured, job]), 'nodefs.available');
    expect(text).toMatch(/shop\/web +unknown +.* unknown .*usage unknown, counts as 0/);
    expect(text).not.toMatch(/shop\/web .* 0 B/);
    expect(text).toContain('the disk usage of 1 pod is not measured yet: it counts as 0 above\n');
    const lost = { ...job, usage: { ...job.usage, disk: unknown('unreadable', 'disk', 'EACCES') } };
    const both = said(aLook(GI, [unmeasured, lost]), 'nodefs.available');
    expect(both).toContain('the disk usage of 2 pods is not measured: they count as 0 above\n');
  });

  it('does not say that pods without statistics count as 0: they rank first', () => {
    const none = unknown('absent', 'stats', 'not there');
    const unseen = { ...web, usage: { ...web.usage, disk: none, containers: none } };
    const text = said(aLook(GI, [unseen, job]), 'nodefs.available');
    expect(text).toMatch(/1 {2}shop\/web .* evicted first, no statistics\n/);
    expect(text).not.toContain('as 0');
  });

  it('never says that a pod is chosen that is not being evicted', () => {
    const waiting = aLook(150 * MI);
    expect(waiting.decisions.some(({ kind }) => kind === 'evict')).toBe(false);
    expect(said(waiting)).toContain('pods in eviction order for memory.available\n');
    expect(said(waiting)).toContain('evicted first\n');
    expect(said(waiting)).toContain('\nshop/web would be chosen first; without it shop/job would be.\n');
  });

  it('says for which signal a pod is being evicted if another one is requested', () => {
    const text = said(aLook(50 * MI), 'pid.available');
    expect(text).toMatch(/shop\/web .* evicted now for memory.available\n/);
    expect(text).toMatch(/shop\/job .* evicted first\n/);
    expect(text).toContain('\nshop/job would be chosen first;');
  });

  it('says that storage limits rank no pod, and which pod the signal would choose', () => {
    const full = (name: string, workingSetBytes: number) =>
      aPod({ ...shop, name, workingSetBytes, diskBytes: GI, ephemeralStorageLimit: quantityOfBytes(MI, 'binary') });
    const look = aLook(50 * MI, [full('e1', 300 * MI), full('e2', 200 * MI), job]);
    const text = said(look);
    expect(text).toContain(
      'storage limits need no ranking; for memory.available, pods would be evicted in this order\n',
    );
    expect(text).toMatch(/shop\/e1 .* evicted first, evicted now over a storage limit\n/);
    expect(text).toMatch(/shop\/e2 .*[0-9 *] {2}evicted now over a storage limit\n/);
    expect(text).toContain('\nshop/e1 would be chosen first; without it shop/e2 would be.\n');
    expect(said(look, null, 'uid-e2')).toContain(
      '\nshop/e2 is evicted now over a storage limit; for memory.available shop/e1 would be chosen first.\n',
    );
  });

  it('names no number of bytes if only zero would do', () => {
    const pair = ['a', 'b'].map((name) => aPod({ name, workingSetBytes: name === 'b' ? 5 : 0 }));
    expect(said(aLook(GI, pair), null, 'uid-b')).toContain('It would be safe with no memory at all');
    const pids = pair.map((pod) => ({ ...pod, usage: { ...pod.usage, processes: pod.usage.workingSetBytes } }));
    expect(said(aLook(GI, pids), 'pid.available', 'uid-b')).toContain('It would be safe with no processes at all');
  });

  it('shows the age only if it decides, and 20 pods and the requested one', () => {
    const twins = Array.from({ length: 30 }, (_, i) =>
      aPod({ name: `p-${String(i).padStart(2, '0')}`, startedAtWallMs: 1_700_000_000_000 - i * 1_000 }),
    );
    const text = said(aLook(GI, twins), null, 'uid-p-29');
    expect(text).toContain('STARTED');
    expect(text).toContain('30  default/p-29');
    expect(text).not.toContain('default/p-28');
    expect(text).toContain('and 9 more; -o json has all\n');
    expect(said(aLook(GI))).not.toContain('STARTED');
  });

  it('escapes everything that a tenant could use against a terminal', () => {
    const text = said(aLook(50 * MI, [aPod({ name: hostile, namespace: 'shop' })]));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });
});

describe('the explanation as JSON', () => {
  it('names the signal of every reason that has one', () => {
    const reasonsOf = (look: ExplainedLook) =>
      explainReport(look, SOURCE, { signal: null, of: null }).reasons.map(({ code, signal }) => [code, signal]);
    expect(reasonsOf(aLook(50 * MI))).toEqual([
      ['below-threshold', 'memory.available'],
      ['grace-running', 'memory.available'],
    ]);
    expect(reasonsOf(aLook(50 * MI, []))).toContainEqual(['no-candidate', 'memory.available']);
    expect(reasonsOf(aLook(50 * MI, [dns]))).toContainEqual(['passed-over', null]);
  });
});

describe('nodewarden explain', () => {
  const command = aCommand();
  const run = (...args: readonly string[]) => command.run(['explain', ...args]);
  const piped = (input: string, ...args: readonly string[]) =>
    command.run(['explain', '--scenario', '-', ...args], input);
  const live = (...args: readonly string[]) => run(...command.config(), ...args);

  function serve(looks: readonly ExplainedLook[]): Promise<void> {
    let asked = 0;
    return command.serve({
      observe: async () => {
        const look = looks[Math.min(asked++, looks.length - 1)] ?? aLook(GI);
        return JSON.stringify({ schema: 1, node: aContext().node, ...look } satisfies ObservedLook);
      },
    });
  }

  it('reports that the daemon is not running, with status 3', async () => {
    expect(await live()).toEqual(command.notRunning());
  });

  it("explains the daemon's next look, and suggests the nearest name for an unknown pod", async () => {
    await serve([aLook(50 * MI)]);
    const { code, out } = await live();
    expect({ code, out }).toEqual({ code: 0, out: said(aLook(50 * MI)) });
    expect(await live('shop/wbe')).toEqual({
      code: 2,
      out: '',
      err: 'no pod shop/wbe in this sample, which has only pods with running processes; did you mean shop/web?\n',
    });
  });

  it("waits for the pods' directories if the signal is one of a disk", async () => {
    const disk = unknown('not-asked', 'disk', 'nobody needed it yet');
    await serve([aLook(GI, [{ ...web, usage: { ...web.usage, disk } }]), aLook(GI, [web])]);
    const { out } = await live('--signal', 'nodefs.available', '-o', 'json');
    expect(JSON.parse(out).pods[0].usage).toEqual(known(0));
  });

  it('explains a step of a scenario, by default the first that evicts a pod', async () => {
    const { code, out } = await run('--scenario', 'config/scenarios/memory-leak.yaml', '-o', 'json');
    expect(code).toBe(0);
    const report = JSON.parse(out);
    expect(report.source).toMatchObject({ kind: 'scenario', name: 'memory-leak' });
    expect(report.victim).toBe(report.decisions.find(({ kind }: { kind: string }) => kind === 'evict').victim.uid);
    const none = await run('--scenario', 'config/scenarios/memory-leak.yaml', '--step', '999');
    expect(none.code).toBe(2);
    expect(none.err).toMatch(/^memory-leak has no sample 999: its samples are 1 to \d+\n$/);
  });

  it('refers to standard input by name', async () => {
    const leak = readFileSync(new URL('../../config/scenarios/memory-leak.yaml', import.meta.url), 'utf8');
    expect((await piped(leak)).out).toMatch(/^<stdin>: memory-leak, step /);
    expect(JSON.parse((await piped(leak, '-o', 'json')).out).source.file).toBe('<stdin>');
    expect((await piped(leak, '--only', 'none')).err).toBe('<stdin>: --only matches none of memory-leak\n');
  });

  it('asks which scenario if a file has several', async () => {
    const { code, err } = await run('--scenario', 'config/scenarios/flapping.yaml');
    expect(code).toBe(2);
    expect(err).toContain('pick one with --only: flapping, flapping-with-min-reclaim\n');
    expect((await run('--scenario', 'config/scenarios/flapping.yaml', '--only', 'flapping')).code).toBe(0);
  });
});
