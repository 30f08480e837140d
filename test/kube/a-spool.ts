import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import type { ApiEvent } from '../../src/kube/api/write-rules.ts';
import { openSpool, type Spool } from '../../src/kube/spool/spool.ts';
import type { Spooled } from '../../src/kube/spool/spool-file.ts';
import { aClock } from './a-clock.ts';
import { anApi, BOOT, VICTIM, writesTo } from './an-api.ts';

/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let directory = '';
export let file = '';
export let unsavedPath = '';
const open: Spool[] = [];
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'spool-'));
  file = path.join(directory, 'spool.jsonl');
  unsavedPath = `${directory}.unsaved`;
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((spool) => spool.close()));
  fs.rmSync(directory, { recursive: true });
  fs.rmSync(unsavedPath, { force: true });
});

/** A deletion. */
export const act = (rest: Partial<Extract<Spooled, { kind: 'delete' }>> = {}): Spooled => ({
  kind: 'delete',
  decision: 'd-1',
  victim: VICTIM,
  graceSeconds: 1,
  why: 'EvictionByNodewarden',
  message: 'memory',
  madeAtMs: 1_000_000,
  bootId: BOOT,
  ...rest,
});
export const event = (name: string): Spooled => {
  const about = { kind: 'Pod', namespace: VICTIM.namespace, name: VICTIM.name, uid: VICTIM.uid } as const;
  const told: ApiEvent = {
    name,
    about,
    reason: 'Evicted',
    type: 'Warning',
    message: 'm',
    annotations: {},
    firstWallMs: 0,
    lastWallMs: 0,
    count: 1,
  };
  return { kind: 'event', event: told };
};

/** On the directory of the test: a second one is the next run of the agent. */
export function aSpool(api = anApi(), clock = aClock()) {
  const found = new Map<string, string>();
  const logged: string[] = [];
  const noted: unknown[] = [];
  const log = (_: unknown, msg: string) => void logged.push(msg);
  const ready = new Set<string>();
  const stale = { is: false };
  const over = new Set<string>();
  const spool = openSpool({
    clock,
    hasRecovered: (uid, sinceMs) => clock.monoMs() - sinceMs >= 60_000 && (stale.is ? null : ready.has(uid)),
    isOver: (uid) => over.has(uid),
    directory,
    unsavedPath,
    bootId: BOOT,
    writes: writesTo(api),
    isUp: () => true,
    findings: { raise: ({ id, text }) => void found.set(id, text), clear: (id) => void found.delete(id) },
    log: { info: log, warn: log },
    note: ({ of, act: did, answer, isAccepted }) => void noted.push([of, did, answer, isAccepted]),
  });
  open.push(spool);
  const said = () => api.sent().map(({ method, path: at }) => `${method} ${at.slice(at.lastIndexOf('/') + 1)}`);
  return { spool, clock, api, found, logged, noted, said, ready, stale, over };
}
export type Staged = ReturnType<typeof aSpool>;
export const thereAre = () => true;
