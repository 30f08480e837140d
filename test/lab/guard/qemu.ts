// A QEMU of the lab as fence_qemu has it: a directory with what it listens at, its pid, and what starts it.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const CTL = path.resolve(import.meta.dirname, '../vm/ctl.mjs');

export type Qemu = {
  readonly directory: string;
  /** Of its process; null: none runs. */
  readonly pid: () => number | null;
  /** A command of QMP. */
  readonly tell: (command: string, given?: object) => Promise<void>;
};
export const isOn = ({ pid }: Qemu): boolean => pid() !== null;

const ALL: Qemu[] = [];
// Also when the lab itself is stopped: it would run for ever.
process.on('exit', () => ALL.forEach(kill));

export function aQemu(directory: string): Qemu {
  const qemu: Qemu = {
    directory,
    pid: () => {
      try {
        const id = Number(fs.readFileSync(path.join(directory, 'pid'), 'utf8'));
        // A zombie does not run.
        return /^\d+ \(qemu[^)]*\) [^ZX]/.test(fs.readFileSync(`/proc/${id}/stat`, 'utf8')) ? id : null;
      } catch {
        return null;
      }
    },
    tell: async (command, given) => {
      const args = given === undefined ? [] : [JSON.stringify(given)];
      await promisify(execFile)(process.execPath, [CTL, 'qmp', path.join(directory, 'qmp.sock'), command, ...args]);
    },
  };
  ALL.push(qemu);
  return qemu;
}

export function kill({ pid }: Qemu): void {
  const id = pid();
  if (id !== null) process.kill(id, 'SIGKILL');
}
