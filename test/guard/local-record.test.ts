import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { GuardDecision, GuardReason } from '../../src/core/guard/decision.ts';
import { type GuardState, initialGuardState } from '../../src/core/guard/state.ts';
import { keepLocalRecord, readLocalRecord } from '../../src/guard/local-record.ts';
import type { GuardLook } from '../../src/guard/loop.ts';
import { createClock } from '../../src/host/clock.ts';
import { aCommand } from '../cli/a-command.ts';
import { aGuardConfig } from '../core/guard/a-guard-config.ts';
import { aMemory } from '../core/guard/a-node.ts';
import { eventually } from '../kube/eventually.ts';
import { heardParts } from '../standalone/needs.ts';
import { aRecord, ID, W1 } from './a-guard-api.ts';

const WALL = 1_764_000_000_000;
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-guard-record-'));
});
afterEach(() => rmSync(directory, { recursive: true }));
const command = aCommand();

const FENCE: GuardDecision = {
  ...{ id: '7', atMs: 0, kind: 'fence', node: W1, gates: [], isDry: true, fencing: ID, replaces: null, act: null },
  frees: { pods: [{ namespace: 'shop', name: 'db-0' } as never], attachments: [] },
  record: aRecord({ phase: 'decided', silentMs: 125_000 }),
};
const HOLD: GuardDecision = {
  ...{ id: '8', atMs: 0, kind: 'hold', node: { ...W1, name: 'w2' } },
  gates: [
    {
      gate: 'witness',
      isOpen: false,
      because: 'kubelet-answers',
      isAtLeast: false,
      value: 'answers',
      limit: null,
      opensMs: null,
    },
  ],
};
const STORM: GuardReason = { code: 'storm-began', kind: 'cluster', scope: { kind: 'cluster', group: 'workers' } };

type Seen = {
  readonly decisions?: readonly GuardDecision[];
  readonly reasons?: readonly GuardReason[];
  readonly dryFenced?: GuardState['dryFenced'];
  readonly wallMs?: number;
  readonly leads?: boolean;
  readonly isSuspect?: boolean;
  readonly signMs?: number | null;
};
function aRecordIn(place: string) {
  const { findings, present } = heardParts();
  const record = keepLocalRecord({ clock: createClock(), findings, directory: place });
  const look = (seen: Seen): void => {
    const {
      decisions = [],
      reasons = [],
      dryFenced = new Map(),
      wallMs = WALL,
      leads = true,
      isSuspect = false,
      signMs = isSuspect ? 0 : 1,
    } = seen;
    const leadership = leads ? { isLeader: true, epoch: 1, sinceMs: 0, authorityUntilMs: 9 } : { isLeader: false };
    const memory = aMemory({ isSuspect, signMs, of: { name: W1.name } });
    const state = { ...initialGuardState(0, 0), nodes: new Map([[W1.uid, memory]]), dryFenced };
    record.keep({
      ...{ observation: { self: { leadership }, wallMs }, verdict: { state, decisions, reasons } },
      config: aGuardConfig({ dryRun: true }),
    } as unknown as GuardLook);
  };
  return { look, close: record.close, present };
}
const textsIn = (place: string): readonly string[] =>
  readLocalRecord(place).entries.map(({ kind, text }) => `${kind}: ${text}`);

/** What a dry run meets: a node that dies and comes back, one that is held, a storm. */
async function aDryRun(): Promise<void> {
  const { look, close } = aRecordIn(directory);
  const dryFenced = new Map([[W1.uid, { atMs: 0, wallMs: WALL }]]);
  look({ decisions: [FENCE, HOLD], dryFenced, isSuspect: true });
  look({ dryFenced, isSuspect: true });
  look({ reasons: [STORM], wallMs: WALL + 250_000 });
  look({ wallMs: WALL + 300_000 });
  await close();
}

describe('the record of a dry run', () => {
  it('says who would have been fenced and why, who was held, and who lives again', async () => {
    await aDryRun();
    expect(textsIn(directory)).toEqual([
      'would-fence: w1: would be fenced (dry run): silent for 2m5s; frees shop/db-0',
      expect.stringMatching(/^held: w2: held by gate witness: /),
      'alive: w1: shows life again 4m10s after it would have been fenced',
      expect.stringMatching(/^storm-began: storm \(cluster\): /),
    ]);
    expect(statSync(join(directory, 'record.jsonl')).mode & 0o007).toBe(0);
  });
  it('does not say of a silent node that it lives again when the guard is armed', async () => {
    const { look, close } = aRecordIn(directory);
    look({ decisions: [FENCE], dryFenced: new Map([[W1.uid, { atMs: 0, wallMs: WALL }]]), isSuspect: true });
    look({ isSuspect: true });
    await close();
    expect(textsIn(directory).map((text) => text.split(':')[0])).toEqual(['would-fence']);
  });

  it('nor when its age begins anew, as after an outage of the API server', async () => {
    const { look, close } = aRecordIn(directory);
    look({ decisions: [FENCE], dryFenced: new Map([[W1.uid, { atMs: 0, wallMs: WALL }]]), isSuspect: true });
    look({ signMs: null });
    await close();
    expect(textsIn(directory).map((text) => text.split(':')[0])).toEqual(['would-fence']);
  });

  it('is what the leader sees', async () => {
    const { look, close } = aRecordIn(directory);
    look({ decisions: [FENCE, HOLD], leads: false });
    await close();
    expect(textsIn(directory)).toEqual([]);
  });
  it('goes on after a restart, and passes over a line that was torn', async () => {
    await aDryRun();
    appendFileSync(join(directory, 'record.jsonl'), '{"schema":1,"wallMs":17');
    await aDryRun();
    expect(textsIn(directory)).toHaveLength(8);
  });
  it('waits in memory for a disk that refuses it, and says so', async () => {
    const place = join(directory, 'state');
    writeFileSync(place, 'a file');
    const { look, close, present } = aRecordIn(place);
    look({ decisions: [HOLD] });
    await eventually(() => expect([...present.values()].join()).toContain(place));
    rmSync(place);
    await eventually(() => expect(textsIn(place)).toHaveLength(1));
    await close();
  });
  it('counts what did not fit into memory meanwhile', async () => {
    const place = join(directory, 'state');
    writeFileSync(place, 'a file');
    const { look, close } = aRecordIn(place);
    look({ decisions: Array.from({ length: 10_007 }, () => HOLD) });
    rmSync(place);
    const lost = () => readLocalRecord(place).entries.filter(({ kind }) => kind === 'lost');
    await eventually(() => expect(lost()).toHaveLength(1));
    expect(lost()).toMatchObject([{ dryRun: true, node: null, text: expect.stringMatching(/^\d+ lines could not/) }]);
    await close();
  });
});

describe('guard history --local', () => {
  const config = (): string => {
    const file = command.path('guard.yaml');
    const kind = { apiVersion: 'nodewarden.dev/v1alpha1', kind: 'NodewardenGuardConfiguration', dryRun: true };
    writeFileSync(file, JSON.stringify({ ...kind, stateDirectory: directory, fencing: { templates: {} } }));
    return file;
  };
  const history = (...args: readonly string[]) => command.run(['guard', 'history', '--local', '-c', config(), ...args]);

  it('shows it, and sums it up', async () => {
    await aDryRun();
    const { code, out } = await history();
    expect(code).toBe(0);
    expect(out).toContain('w1: would be fenced (dry run): silent for 2m5s; frees shop/db-0\n');
    expect(out).toContain('\n1 fencing in dry run, 1 node alive again; 1 hold, 1 storm\n');
    const json = JSON.parse((await history('w2', '-o', 'json')).out);
    expect(json.entries.map(({ kind, gate }: { kind: string; gate: string }) => [kind, gate])).toEqual([
      ['held', 'witness'],
      ['storm-began', null],
    ]);
  });
  it('says that there is none', async () => {
    const { code, out } = await history();
    expect({ code, out }).toEqual({
      code: 0,
      out: expect.stringContaining(`Nothing in ${directory}: no guard has stored there`),
    });
  });
  it.skipIf(process.getuid?.() !== 0)(
    'says that it is not all while the disk is full, and that entries are lost if the guard ends meanwhile [needs root for a tmpfs]',
    async () => {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', directory]);
      try {
        const ballast = join(directory, 'ballast');
        const fill = 'head -c 1M /dev/zero > "$0" 2>/dev/null; true';
        const { look, close, present } = aRecordIn(directory);
        await close();
        execFileSync('sh', ['-c', fill, ballast]);
        look({ decisions: [HOLD] });
        await eventually(() => expect([...present.values()].join()).toContain('takes no entries'));
        const meanwhile = await history();
        expect({ code: meanwhile.code, out: meanwhile.out }).toEqual({
          code: 1,
          out: `Nothing in ${directory}: not all of its record can be read.\n`,
        });
        expect(meanwhile.err).toContain(`the disk of ${directory} refuses them`);
        await close();

        rmSync(ballast);
        for (let starts = 0; starts < 2; starts++) await aRecordIn(directory).close();
        expect(textsIn(directory)).toEqual([expect.stringMatching(/^lost: .* until the guard ended$/)]);
        const { code, out } = await history();
        expect(code).toBe(0);
        expect(out).toContain('the disk refused them until the guard ended');
      } finally {
        execFileSync('umount', ['-l', directory]);
      }
    },
  );
  it('says of a node of which it tells nothing no more than that', async () => {
    const { look, close } = aRecordIn(directory);
    look({ decisions: [FENCE] });
    await close();
    expect((await history('w9')).out).toBe(`Nothing in ${directory}: it tells nothing of w9.\n`);
  });
});
