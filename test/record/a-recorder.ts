import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { createClock } from '../../src/host/clock.ts';
import { createFindings } from '../../src/record/writing/findings.ts';
import { createRecorder, type OpenRecorder, type RecorderNeeds } from '../../src/record/writing/recorder.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const clock = createClock();
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** For the tests of a file: recorders whose state and record are in a directory of each test's own. */
export function aRecorder() {
  let directory = '';
  const opened: OpenRecorder[] = [];
  const at = (...names: readonly string[]): string => join(directory, ...names);
  const closeAll = async (): Promise<void> => {
    for (const recorder of opened.splice(0)) await recorder.close();
  };

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-record-'));
  });
  afterEach(async () => {
    await closeAll();
    rmSync(directory, { recursive: true, force: true });
  });

  function openRecorder(
    rest: Partial<Pick<RecorderNeeds, 'recordDirectory' | 'stateFile' | 'dry' | 'bootId' | 'adopted'>> = {},
    open = createRecorder,
  ) {
    const findings = createFindings({ clock, log: silent });
    const recorder = open({
      clock,
      stateFile: at('state.json'),
      recordDirectory: at('record'),
      dry: false,
      bootId: 'boot',
      adopted: initialState('boot'),
      findings,
      config: () => aConfig([aThreshold('memory.available', 100 * MI)]),
      ...rest,
    });
    findings.recordIn(recorder);
    opened.push(recorder);
    return { recorder, findings };
  }

  /** Of ours, in this test's directory. */
  function openFiles(): readonly string[] {
    const paths = readdirSync('/proc/self/fd').map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return ''; // The one that listed them.
      }
    });
    return paths.filter((path) => path.startsWith(directory));
  }

  return { at, openRecorder, closeAll, openFiles };
}

function aDecision(id: string): Decision {
  return { id, atMs: 1_000, kind: 'set-condition', condition: 'MemoryPressure', status: true };
}

const ENDING = { ...aPod({ name: 'ending' }), isTerminating: true };

export function aStep(id: string, state: Partial<State> = {}) {
  const pods = { known: true, value: [aPod({ name: 'web', workingSetBytes: 300 * MI }), ENDING] } as const;
  const verdict: Verdict = {
    state: { ...initialState('boot'), ...state },
    decisions: [aDecision(id)],
    reasons: [{ code: 'waiting-for-victim', eviction: 'a-1', remainingMs: 5 }],
    next: { afterMs: 2, pods: null },
    intentWaitMs: 5,
  };
  return {
    observation: anObservation(1_000, { 'memory.available': { available: 92 * MI, capacity: GI } }, { pods }),
    verdict,
  };
}

export async function until(isSo: () => boolean): Promise<void> {
  const giveUpMs = clock.monoMs() + 60_000;
  while (!isSo()) {
    if (clock.monoMs() > giveUpMs) throw new Error('it never became so');
    await new Promise<void>((resolve) => {
      clock.after(10, resolve);
    });
  }
}
