import { cpuUsage } from 'node:process';

/** CPU time that this process has used so far, user and system, all threads. */
export function cpuMs(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1_000;
}
