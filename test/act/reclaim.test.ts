import { describe, expect, it } from 'vitest';
import { createReclaim } from '../../src/act/reclaim.ts';
import { known } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { createClock } from '../../src/host/clock.ts';
import { createLog } from '../../src/record/writing/log.ts';
import { sayOutcome } from '../../src/words/decision.ts';
import { MI } from '../a.ts';
import { hard } from './an-actor.ts';

const threshold = { ...hard, signal: 'nodefs.available', limit: quantityOfBytes(100 * MI, 'binary') } as const;
const decision = { id: 'boot-1', atMs: 0, kind: 'reclaim', threshold } as const;
const removed = { containers: 1, images: 2, problem: null } as const;

function stage(runtime?: (calls: readonly string[]) => Promise<typeof removed>, freed = 3 * MI) {
  const did: string[] = [];
  let available = 10 * MI;
  const log = (_: unknown, msg: string) => void did.push(msg);
  const reclaim = createReclaim({
    clock: createClock(),
    observer: { reread: async () => known({ available, capacity: 1_000 * MI, sampledAtMs: 0 }) },
    commands: () => [{ signal: 'nodefs.available', command: ['/bin/prune'], timeoutMs: 1 }],
    run: async ({ argv }) => {
      did.push(argv.join(' '));
      return { kind: 'exited', code: 0, stdout: '', stderr: '' };
    },
    runtime:
      runtime &&
      (async (calls) => {
        did.push(`runtime: ${calls.join(', ')}`);
        available += freed;
        return runtime(calls);
      }),
    log: { debug: log, info: log, warn: log, error: log },
    findings: { raise: () => {}, clear: () => {}, all: () => [] },
  });
  return { did, reclaim };
}

describe('a reclaim', () => {
  it("runs the operator's commands and calls the runtime; the outcome reports the result", async () => {
    const { did, reclaim } = stage(async () => removed);
    const outcome = await reclaim({ ...decision, calls: ['containers', 'images'] });
    expect(outcome).toMatchObject({ of: 'boot-1', kind: 'reclaimed', freed: known(3 * MI), removed });
    expect(did).toEqual([
      '/bin/prune',
      'runtime: containers, images',
      'the reclaim for nodefs.available freed 3 MiB; 1 dead container and 2 unused images removed',
    ]);
    expect(sayOutcome(outcome, null, decision)).toBe('freed 3 MiB; 1 dead container and 2 unused images removed');
    const partial = { ...outcome, removed: { ...removed, problem: 'no answer' } };
    expect(sayOutcome(partial, null, decision)).toContain('removed, not everything that could be removed: no answer');
  });

  it('has freed an unknown amount if more was used meanwhile, never less than nothing', async () => {
    const { did, reclaim } = stage(async () => removed, -8 * MI);
    const outcome = await reclaim({ ...decision, calls: ['images'] });
    expect(outcome).toMatchObject({ freed: { known: false } });
    expect(did.at(-1)).toContain('the reclaim for nodefs.available freed an unknown amount; 1 dead container');
    expect(sayOutcome(outcome, null, decision)).toContain(
      'freed an unknown amount (meanwhile 8 MiB more were used); 1 dead',
    );
  });

  it('has freed inodes if these were lacking', () => {
    const outcome = { of: 'boot-1', atMs: 0, kind: 'reclaimed', freed: known(30_000) } as const;
    const inodes = { ...decision, threshold: { ...threshold, signal: 'nodefs.inodesFree' } } as const;
    expect(sayOutcome(outcome, null, inodes)).toBe('freed 30000 inodes');
  });

  it('calls no runtime for a signal that it cannot help, or if there is none', async () => {
    const asked = stage(async () => removed);
    expect(await asked.reclaim(decision)).not.toHaveProperty('removed');
    const none = stage();
    expect(await none.reclaim({ ...decision, calls: ['images'] })).not.toHaveProperty('removed');
    expect([...asked.did, ...none.did].filter((line) => line.startsWith('runtime'))).toEqual([]);
  });

  it('raises nothing about a command that was removed while it ran', async () => {
    const raised: string[] = [];
    let commands = [{ signal: 'nodefs.available', command: ['/bin/prune'], timeoutMs: 1 } as const];
    const reclaim = createReclaim({
      clock: createClock(),
      observer: { reread: async () => known({ available: 1, capacity: 2, sampledAtMs: 0 }) },
      commands: () => commands,
      run: async () => {
        commands = [];
        return { kind: 'exited', code: 1, stdout: '', stderr: '' };
      },
      log: createLog('error', { writeLine: () => {} }),
      findings: { raise: ({ id }) => void raised.push(id), clear: () => {}, all: () => [] },
    });
    await reclaim(decision);
    expect(raised).toEqual([]);
  });

  it('has a finding for each command that failed, also if another one of the same program succeeded', async () => {
    const found = new Map<string, string>();
    const commandOf = (what: string) =>
      ({ signal: 'nodefs.available', command: ['/usr/bin/podman', what, 'prune', '-f'], timeoutMs: 1 }) as const;
    const reclaim = createReclaim({
      clock: createClock(),
      observer: { reread: async () => known({ available: 1, capacity: 2, sampledAtMs: 0 }) },
      commands: () => [commandOf('container'), commandOf('image')],
      run: async ({ argv }) => ({ kind: 'exited', code: argv[1] === 'image' ? 125 : 0, stdout: '', stderr: '' }),
      log: createLog('error', { writeLine: () => {} }),
      findings: {
        raise: ({ id, text }) => void found.set(id, text),
        clear: (id) => void found.delete(id),
        all: () => [],
      },
    });
    await reclaim(decision);
    expect([...found.values()]).toEqual([
      'the reclaim command /usr/bin/podman (reclaimCommands[1]) for nodefs.available failed: exit status 125',
    ]);
    // Arguments may be secret.
    expect([...found.keys()].join()).toMatch(/^reclaim\/nodefs\.available\/\/usr\/bin\/podman#[0-9a-f]{8}$/);
  });

  it('that is in progress is shared, not started twice', async () => {
    const { did, reclaim } = stage(async () => removed);
    const both = [
      reclaim({ ...decision, calls: ['images'] }),
      reclaim({ ...decision, id: 'boot-2', calls: ['images'] }),
    ];
    expect((await Promise.all(both)).map(({ of }) => of)).toEqual(['boot-1', 'boot-2']);
    expect(did.filter((line) => line.startsWith('runtime'))).toHaveLength(1);
  });
});
