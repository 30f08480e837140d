import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CgroupMounts } from '../../src/host/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroupfs.ts';
import { whereaboutsOf } from '../../src/host/escaped.ts';
import { startTicks } from '../../src/host/workload.ts';
import { aCgroup, aProcess, clock, enter, machine } from './test-cgroup.ts';

const OBSERVED_MS = 1_000;
/** Swaps two cgroups, or renames the first one if there is only one, without a pause. */
const RENAMES = `$| = 1; my ($a, $b) = @ARGV; print "on\\n";
  if (defined $b) { while (1) { rename $a, "$a-x"; rename $b, $a; rename "$a-x", $b } }
  while (1) { rename $a, "$a-x"; rename "$a-x", $a }`;

describe.skipIf(machine?.version !== 1)('whereaboutsOf [needs root and a writable memory hierarchy of v1]', () => {
  const mounts: CgroupMounts = machine ?? {
    ...{ layout: 'v1', version: 1, unified: null, memory: '', pids: null, systemd: null },
  };

  async function set(...others: readonly string[]) {
    const top = aCgroup(mounts.memory);
    const own = `${mounts.memory}${top}/own`;
    const directories = [own, ...others.map((name) => `${mounts.memory}${top}/${name}`)];
    for (const directory of directories) mkdirSync(directory);
    const ref = refOf(mounts, `${top}/own`);
    const { pid } = await aProcess('', own);
    const renaming = spawn('perl', ['-e', RENAMES, ...directories], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(async () => {
      renaming.kill('SIGKILL');
      await once(renaming, 'close');
    });
    await once(renaming.stdout, 'data');
    if (!ref.known) throw new Error(ref.detail);
    return { ref: ref.value, id: { pid, startTicks: startTicks(pid) ?? 0 } };
  }
  /** Every answer within a second, each once. */
  function answers(ask: () => ReturnType<typeof whereaboutsOf>): ReadonlySet<string> {
    const seen = new Set<string>();
    for (const endMs = clock.monoMs() + OBSERVED_MS; clock.monoMs() < endMs; ) {
      const answer = ask();
      seen.add(typeof answer === 'string' ? answer : answer.path.known ? 'outside' : 'unknown');
    }
    return seen;
  }

  it.each([
    ['is renamed', []],
    ['swaps its name with another one', ['other']],
  ])('never takes a process for escaped whose cgroup %s again and again', async (_, others) => {
    const { ref, id } = await set(...others);
    const seen = answers(() => whereaboutsOf(mounts, ref, id));
    expect(seen).toContain('inside');
    expect(seen).not.toContain('outside');
    expect(seen).not.toContain('ended');
  });

  it('finds one that left its cgroup, whatever name that has', async () => {
    const { ref, id } = await set();
    enter(`${mounts.memory}/`, id.pid);
    expect([...answers(() => whereaboutsOf(mounts, ref, id))]).toEqual(['outside']);
  });
});
