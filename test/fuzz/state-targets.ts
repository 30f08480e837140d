import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { historyText } from '../../src/cli/history-text.ts';
import { painter } from '../../src/cli/print.ts';
import { decide } from '../../src/core/decide.ts';
import { known } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { escapeUnsafe } from '../../src/core/units/escape.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { createClock } from '../../src/host/clock.ts';
import { groupIdOf } from '../../src/host/own/socket-file.ts';
import { decodeValue, isObjectPath, splitSignature } from '../../src/host/systemd/bus-value.ts';
import { unitNameMistake, unitPath } from '../../src/host/systemd/unit-name.ts';
import { entryOf, joinDecisions, sayEntry } from '../../src/record/entry.ts';
import { lastBoot } from '../../src/record/reading/boot-report.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { shutdownsOf } from '../../src/record/reading/shutdowns.ts';
import { loadState } from '../../src/record/writing/state-file.ts';
import { type SocketNeeds, serveSocket } from '../../src/serve/socket.ts';
import { loadHeld } from '../../src/standalone/restart/held-file.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aBoot, aWholeShutdown } from '../record/a-shutdown.ts';
import { must, same, sentence } from './oracle.ts';
import { type Example, example, type Target } from './target.ts';

const CONFIG = aConfig([
  aThreshold('memory.available', 100 * MI),
  aThreshold('memory.available', 200 * MI, { graceMs: 30_000, minReclaimBytes: 10 * MI }),
  aThreshold('nodefs.available', GI),
]);
const PODS = { pods: known([aPod({ name: 'a', workingSetBytes: GI }), aPod({ name: 'b', diskBytes: GI })]) };
const look = (atMs: number, availableBytes: number, rest: object = {}) =>
  anObservation(
    atMs,
    {
      'memory.available': { available: availableBytes, capacity: 4 * GI },
      'nodefs.available': { available: 2 * availableBytes, capacity: 4 * GI },
    },
    { ...PODS, ...rest },
  );

/** Verdicts on the way into an eviction. */
function verdicts(): readonly Verdict[] {
  let state = initialState('boot');
  return [10 * GI, 150 * MI, 90 * MI, 80 * MI, GI].map((availableBytes, i) => {
    const verdict = decide(state, look(1_000 + i * 40_000, availableBytes), CONFIG);
    state = verdict.state;
    return verdict;
  });
}

/** Goes on from a state as the daemon does after a restart. */
function goOn(from: State): void {
  let state = from;
  for (const atMs of [1_000, 11_000, 200_000, 200_010]) {
    state = decide(state, look(atMs, atMs % 20 === 0 ? 50 * MI : GI), CONFIG).state;
  }
}

const states: Target = {
  name: 'state-file',
  syntax: 'json',
  examples: () => verdicts().map(({ state }) => example(JSON.stringify(state))),
  open: ({ scratch }) => {
    const path = join(scratch, 'state.json');
    const clock = createClock();
    return (input) => {
      writeFileSync(path, input);
      const decided = { recordDirectory: scratch, dry: false, measured: 'node' };
      const { state, findings } = loadState(path, 'boot', clock, decided);
      for (const { text } of findings) sentence(escapeUnsafe(text), 'a finding');
      goOn(state);
      return findings.length === 0;
    };
  },
};

const HELD = {
  schema: 1,
  bootId: 'boot',
  conditions: ['MemoryPressure'],
  units: [
    {
      unit: 'web.service',
      pod: 'shop/web',
      qos: 'Burstable',
      tolerations: [{ key: 'a', operator: 'Exists', value: '', effect: 'NoSchedule' }],
      isStaticCritical: false,
      after: 'restart',
      conditions: ['MemoryPressure'],
      invocationId: '',
      level: 1,
      dueMs: null,
    },
  ],
  restarted: [{ unit: 'batch.service', level: 0, startedMs: 1 }],
  stoppedAgain: [{ unit: 'web.service', atMs: 1 }],
};

const held: Target = {
  name: 'held-file',
  syntax: 'json',
  examples: () => [example(JSON.stringify(HELD))],
  open: ({ scratch }) => {
    const clock = createClock();
    return (input) => {
      writeFileSync(join(scratch, 'held.json'), input);
      const { held: found, complaint } = loadHeld(scratch, 'boot', clock);
      if (complaint !== null) sentence(escapeUnsafe(complaint), 'a complaint');
      for (const { unit, level } of found.units) {
        must(typeof unit === 'string' && Number.isFinite(level), 'a held unit that is none');
      }
      return complaint === null;
    };
  },
};

function recordExamples(): readonly Example[] {
  const head = { atWallMs: 1_700_000_000_000, bootId: 'boot', dry: false };
  const lines = verdicts().flatMap(({ decisions, reasons }) =>
    decisions.flatMap((decision) => [
      sayEntry(entryOf(head, { kind: 'decision', decision, reasons })),
      sayEntry(entryOf(head, { kind: 'deferred', of: [decision.id], waitedMs: 5 })),
      sayEntry(
        entryOf(head, {
          kind: 'outcome',
          outcome: { of: decision.id, atMs: 5, kind: 'ended', via: 'sigkill', releasedBytes: known(5) },
        }),
      ),
      sayEntry(
        entryOf(head, {
          kind: 'outcome',
          outcome: {
            of: decision.id,
            atMs: 9,
            kind: 'survived',
            left: [{ pid: 7, name: 'x', rssBytes: 1 }],
            detail: 'D',
          },
        }),
      ),
    ]),
  );
  const note = sayEntry(
    entryOf(head, { kind: 'note', note: { kind: 'kernel-oom-kill', atMs: 1, count: 1, pods: ['shop/web'] } }),
  );
  const lost = sayEntry(entryOf(head, { kind: 'lost', entries: 3 }));
  const boot = aBoot('boot');
  const shutdown = [boot.started(1), boot.running(2, 'shop/web'), ...aWholeShutdown(boot)].map(sayEntry);
  return [
    example(lines.join('') + note + lost),
    example(shutdown.join('')),
    ...[...lines, note, lost, ...shutdown].map((line) => example(line)),
  ];
}

const records: Target = {
  name: 'record-file',
  syntax: 'jsonl',
  examples: recordExamples,
  open: ({ scratch }) => {
    mkdirSync(scratch, { recursive: true });
    return (input) => {
      writeFileSync(join(scratch, 'record.jsonl'), input);
      const { entries, tornLines, unreadable } = readRecord(scratch);
      for (const why of unreadable) sentence(escapeUnsafe(why), 'an unreadable record');
      const decisions = joinDecisions(entries);
      const kernelOomKills = entries.flatMap((entry) =>
        entry.kind === 'note' && entry.note.kind === 'kernel-oom-kill'
          ? [{ ...entry.note, atWallMs: entry.atWallMs, bootId: entry.bootId }]
          : [],
      );
      const { shutdowns, boots } = shutdownsOf(entries, null);
      const text = historyText({ schema: 1, decisions, kernelOomKills, shutdowns, boots }, scratch, painter(false));
      const report = lastBoot(entries, 'now');
      if (report !== null) sentence(escapeUnsafe(report.sentence), 'a report of the last boot');
      must(!/[^\n\P{Cc}]|[\p{Cf}\p{Cs}]/u.test(text), 'history prints what is not safe', () =>
        JSON.stringify(text.slice(0, 400)),
      );
      return tornLines === 0 && entries.length > 0;
    };
  },
};

/** One client after the other against a listening socket; a good request is answered after each. */
const requests: Target = {
  name: 'socket-request',
  syntax: 'json',
  examples: () => ['status', 'watch', 'observe'].map((ask) => example(`{"ask":"${ask}"}\n`)),
  open: async ({ scratch }) => {
    const path = join(scratch, 's.sock');
    const needs: SocketNeeds = {
      clock: createClock(),
      path,
      groupId: null,
      answer: () => ({ ok: true }),
      observe: async () => '{"answer":{"ok":true}}',
    };
    const opened = await serveSocket(needs);
    must(opened.known, 'the socket does not open', () => JSON.stringify(opened));
    return async (input) => {
      const isLine = input.includes(0x0a) || input.length > 64 * 1024;
      const said = await exchange(path, isLine ? input : Buffer.concat([input, Buffer.from('\n')]));
      const isAnswered = said.startsWith('{"answer":');
      must(isAnswered || said.startsWith('{"error":'), 'the socket answers what is neither', () => said.slice(0, 200));
      if (!isAnswered)
        same(
          JSON.parse(await exchange(path, Buffer.from('{"ask":"status"}\n'))),
          { answer: { ok: true } },
          'deaf afterwards',
        );
      return isAnswered;
    };
  },
};

function exchange(path: string, request: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    const socket = connect(path);
    socket.setEncoding('utf8');
    socket.on('connect', () => socket.write(request));
    socket.on('data', (chunk: string) => {
      said += chunk;
      if (said.includes('\n')) socket.destroy();
    });
    // A large request is still being written when the answer is there.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => (said === '' ? reject(new Error('the socket closes without a word')) : resolve(said)));
  });
}

/** What the bus and /etc/group name. */
const names: Target = {
  name: 'bus-names',
  syntax: 'text',
  largest: 1024 * 1024,
  examples: () =>
    [
      'web.service',
      'a@b.slice',
      '/org/freedesktop/systemd1/unit/a_2eservice',
      'a{sv}',
      '(ssas)',
      'root:x:0:a,b\nnodewarden:x:990:\n',
    ].map((text) => example(text)),
  open: ({ scratch }) => {
    mkdirSync(join(scratch, 'etc'), { recursive: true });
    return (input) => {
      const text = input.toString();
      const types = splitSignature(text);
      must(types === null || types.join('') === text, 'a signature falls apart', () => text);
      const mistake = unitNameMistake(text);
      if (mistake === null) must(isObjectPath(unitPath(text)), 'a unit without an object path', () => text);
      else sentence(escapeUnsafe(mistake), 'a mistake in a name');
      same(decodeValue(text), text, 'text is decoded as something else');
      writeFileSync(join(scratch, 'etc/group'), input);
      const id = groupIdOf('nodewarden', scratch);
      must(id === null || id >= 0, 'a group id that is none', () => String(id));
      return types !== null || mistake === null || id !== null;
    };
  },
};

export const STATE_TARGETS: readonly Target[] = [states, held, records, requests, names];
