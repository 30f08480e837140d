// Writers of members on machines that are files: a process each, which writes to a ledger outside of its machine until the machine's
// power is off, whether or not its kubelet reaches the API server.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

export type Ledger = {
  /** The process of a pod (namespace/name) starts on the machine of that directory. */
  readonly start: (machine: string, pod: string, uid: string) => void;
  readonly stop: (uid: string) => void;
  /** Of that pod, in the order of their first line. */
  readonly writers: (pod: string) => readonly Writer[];
  readonly close: () => void;
};
/** Of its lines. */
export type Writer = { readonly uid: string; readonly firstMs: number; readonly lastMs: number };

/** It forks nothing, and so ends at most one interval after the power. */
const WRITE = `
power=; exec 3<> <(:)
while read -r power < "$1" && [ "$power" = on ]; do echo "$EPOCHREALTIME $3" >> "$2"; read -rt 0.1 -u 3; done`;

export function aLedger(directory: string): Ledger {
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(directory, { recursive: true });
  const file = (pod: string): string => path.join(directory, pod.replace('/', '_'));
  const running = new Map<string, ChildProcess>();
  const stop = (uid: string): void => {
    running.get(uid)?.kill('SIGKILL');
    running.delete(uid);
  };
  return {
    stop,
    start: (machine, pod, uid) => {
      const args = ['-c', WRITE, 'writer', path.join(machine, 'power'), file(pod), uid];
      running.set(uid, spawn('bash', args, { stdio: 'ignore' }));
    },
    writers: (pod) => {
      const times = new Map<string, { firstMs: number; lastMs: number }>();
      for (const line of fs.readFileSync(file(pod), 'utf8').split('\n').filter(Boolean)) {
        const [seconds = '', uid = ''] = line.split(' ');
        const atMs = Number(seconds) * 1_000;
        times.set(uid, { firstMs: times.get(uid)?.firstMs ?? atMs, lastMs: atMs });
      }
      return [...times].map(([uid, written]) => ({ uid, ...written }));
    },
    close: () => {
      for (const uid of [...running.keys()]) stop(uid);
    },
  };
}

/** How long the second of two writers wrote while the first went on; 0: the first had ended. Milliseconds. */
export const overlapMs = ([first, second]: readonly Writer[]): number =>
  first === undefined || second === undefined ? 0 : Math.max(0, Math.min(first.lastMs, second.lastMs) - second.firstMs);
