import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { clock, until } from '../host/test-cgroup.ts';
import { aBench, anExecutable, detailOf, isRunning, PREAMBLE } from './an-agent.ts';

const always = (): null => null;
const statusOf = async (script: string, deadlineMs?: number) => {
  const bench = aBench({ fence_a: script }, deadlineMs === undefined ? {} : { deadlineMs });
  const { power } = await bench.agents.status(bench.method('fence_a'), 'patrol');
  return { bench, power };
};

describe('an agent', () => {
  it('gets no arguments, nothing of our environment, and a finished file without a name', async () => {
    const { bench } = await statusOf(`
tr '\\0' '\\n' </proc/$$/cmdline >arguments
/usr/bin/env >environment
stat -L -c '%F %a %h' /dev/stdin >input
stat -f -L -c %T /dev/stdin >>input
`);
    expect(bench.read('arguments')).toBe(`/bin/bash\n${bench.directory}/fence_a\n`);
    const names = bench
      .read('environment')
      .split('\n')
      .map((line) => line.split('=')[0]);
    // The last three are bash's own.
    expect(names.filter(Boolean).sort()).toEqual(['LC_ALL', 'OLDPWD', 'PATH', 'PWD', 'SHLVL', '_'].sort());
    expect(bench.read('input')).toBe('regular file 600 0\ntmpfs\n');
  });
});

describe('what is asked of an agent', () => {
  it('is status, off, on and metadata (G3: never a reboot)', async () => {
    const { agents, method, read } = aBench({ fence_a: 'echo "$action" >> actions; echo "Status: ON"' });
    await agents.status(method('fence_a'), 'patrol');
    await agents.command(method('fence_a'), 'off', always);
    await agents.command(method('fence_a'), 'on', always);
    await agents.exposure(method('fence_a'));
    await agents.metadata('fence_a');
    expect(read('actions')).toBe('status\noff\non\nstatus\n');
  });

  it('is metadata only before its first run, and when its file has changed', async () => {
    const { agents, method, read, directory } = aBench({ fence_a: 'echo "Status: ON"' });
    const power = async () => (await agents.status(method('fence_a', { parameters: { plug: '1' } }), 'dead')).power;
    await power();
    await power();
    expect(read('metadata-asked')).toBe('\n');
    anExecutable(join(directory, 'fence_a'), PREAMBLE.replace('plug ip', 'port ip'));
    expect(detailOf(await power())).toBe('plug: the agent has no such parameter');
    expect(read('metadata-asked')).toBe('\n\n');
  });

  it.each([
    ['printf "<resource-agent"', /no XML/],
    ['echo "Status: ON"', /no XML/],
    ['head -c 2000000 /dev/zero | tr "\\0" " "', /far more than an answer/],
    ['exit 1', /exit status 1/],
  ])('and nothing more of one that answers it with %s', async (script, why) => {
    const { agents, method, read, directory } = aBench({});
    anExecutable(join(directory, 'fence_a'), `#!/bin/bash\ncd "$(dirname "$0")"; cat >> input\n${script}\n`);
    expect(detailOf((await agents.status(method('fence_a'), 'dead')).power)).toMatch(why);
    expect(read('input')).toBe('action=metadata\n');
  });
});

describe('a status', () => {
  it.each([
    ['echo "Status: ON"', 'on'],
    ['echo "Status: OFF"; exit 2', 'off'],
    ['echo ON', 'on'],
    ['echo "fetching OFFERS: Status: ON" >&2; echo "Status: ON"', 'on'],
  ] as const)('%s is %s', async (script, power) => {
    expect((await statusOf(script)).power).toEqual({ known: true, value: power });
  });

  it.each([
    ['echo "Status: OFF"', 'its exit status 0 does not fit what it printed, OFF'],
    ['echo "Status: ON"; exit 2', 'its exit status 2 does not fit what it printed, ON'],
    ['echo ON; echo OFF; exit 2', 'its exit status 2 does not fit what it printed, ON and OFF'],
    ['echo "Status: OFF"; exit 1', 'its exit status 1 does not fit what it printed, OFF'],
    ['echo "Status: ON" >&2', 'exit status 0; it said: Status: ON'],
    ['exit 2', 'exit status 2'],
    ['', 'exit status 0'],
    ['echo "Status: on"', 'exit status 0; it said: Status: on'],
    ['printf "Status: OFF\\\\0"; exit 2', 'exit status 2; it said: Status: OFF\\u0000'],
    ['printf "Status: \\\\xff\\\\xfeOFF"; exit 2', 'exit status 2; it said: Status: \uFFFD\uFFFDOFF'],
    ['echo "OFFLINE ON-LINE"; exit 2', 'exit status 2; it said: OFFLINE ON-LINE'],
    ['echo "Failed: no login" >&2; exit 1', 'exit status 1; it said: Failed: no login'],
    [
      'printf "\\\\e[2JStatus: fine\\\\u202e\\\\n" >&2; exit 1',
      'exit status 1; it said: \\u001b[2JStatus: fine\\u202e',
    ],
    ['kill -TERM $$', 'it was ended by SIGTERM'],
  ])('%s is unknown', async (script, detail) => {
    expect(detailOf((await statusOf(script)).power)).toBe(detail);
  });

  it('in 10 MiB of output is unknown, and the agent ends by itself', async () => {
    const { bench, power } = await statusOf('echo "Status: ON"; head -c 10485760 /dev/zero | tr "\\0" x; echo > ended');
    expect(power).toMatchObject({ known: false, why: 'malformed' });
    expect(detailOf(power)).toMatch(/^it printed far more than an answer; it said: x{200}$/);
    expect(existsSync(join(bench.directory, 'ended'))).toBe(true);
  });

  it('that hangs is unknown at its deadline, and nothing of it is left', async () => {
    const { bench, power } = await statusOf('echo "Status: ON"; trap "" TERM; sleep 1000 & echo $! > pid; wait', 1_500);
    expect(power).toMatchObject({ known: false, why: 'timed-out' });
    await until(() => !isRunning(Number(bench.read('pid'))));
  });
});

describe('an agent that cannot be run', () => {
  it('is unknown, with the reason and what to do', async () => {
    const { agents, method, directory } = aBench({ fence_a: 'echo "Status: ON"', fence_b: 'echo "Status: ON"' });
    chmodSync(join(directory, 'fence_a'), 0o644);
    chmodSync(join(directory, 'fence_b'), 0o757);
    const say = async (agent: string) => detailOf((await agents.status(method(agent), 'dead')).power);
    expect(await say('fence_none')).toBe(`it was not started: ${directory}/fence_none does not exist`);
    expect(await say('fence_a')).toBe(
      `it was not started: ${directory}/fence_a is not executable: chmod +x ${directory}/fence_a`,
    );
    expect(await say('fence_b')).toContain('someone other than root could control this agent');
    expect(await say('../bin/true')).toBe('it was not started: this is not the name of a fence agent');
  });
});

describe('what an agent leaves running', () => {
  it.each([
    ['in its group, with its output', 'sleep 1000 & echo $! > pid'],
    ['in its group, without its output', 'sleep 1000 >/dev/null 2>&1 & echo $! > pid'],
    ['in a group of its own', 'set -m; sleep 1000 >/dev/null 2>&1 & echo $! > pid'],
    ['in a session of its own, with its output', 'setsid sh -c "echo \\$\\$ > pid; exec sleep 1000" &'],
    [
      'in a session of its own, with nothing but its input',
      'setsid sh -c "echo \\$\\$ > pid; exec sleep 1000" </dev/stdin >/dev/null 2>&1 &',
    ],
  ])('%s, makes its answer unknown and is ended', async (_, leave) => {
    const { bench, power } = await statusOf(
      `${leave}\nwhile [ ! -s pid ]; do sleep 0.01; done\necho "Status: OFF"; exit 2`,
    );
    expect(detailOf(power)).toMatch(/^it ended, but left running, which was killed if found: .*\(\d+\)/);
    await until(() => !isRunning(Number(bench.read('pid'))));
  });

  it('after a command: then nothing is known of the command either', async () => {
    const { agents, method } = aBench({ fence_a: 'sleep 1000 & echo "Success: Powered OFF"' });
    const { saysDone } = await agents.command(method('fence_a'), 'off', always);
    expect(detailOf(saysDone)).toContain('left running');
  });
});

describe('a command (G1: what it says is no proof)', () => {
  it('that ends with 0 says that it was done, and nothing about the power', async () => {
    const { agents, method } = aBench({ fence_a: 'echo "Success: Powered OFF"; echo "Status: OFF"' });
    const claim = await agents.command(method('fence_a'), 'off', always);
    expect(claim.saysDone).toEqual({ known: true, value: true });
    // The only three things that it has beside; an answer about power has `power` and no `saysDone`.
    expect(Object.keys(claim).sort()).toEqual(['begunMs', 'endedMs', 'isWithheld', 'saysDone']);
    // @ts-expect-error A claim is no answer: what needs a proof does not take it.
    const proof: { readonly power: unknown } = claim;
    expect(proof.power).toBeUndefined();
  });

  it.each(['echo "Status: OFF"; exit 2', 'exit 1', 'echo "Success: Powered OFF"; kill -KILL $$'])(
    'that ends otherwise (%s) says nothing',
    async (script) => {
      const { agents, method } = aBench({ fence_a: script });
      expect((await agents.command(method('fence_a'), 'off', always)).saysDone.known).toBe(false);
    },
  );

  it('is not begun without authority, nor later than a successor would expect', async () => {
    const bench = aBench({
      fence_a: 'echo "$action" >> ran',
      fence_slow: 'touch "slow$(value plug)"; while [ ! -e go ]; do sleep 0.05; done',
    });
    const { agents, method } = bench;
    const none = await agents.command(method('fence_a'), 'off', () => 'authority has ended');
    expect(detailOf(none.saysDone)).toBe('it was not begun: authority has ended');
    // All that may run at once is running.
    const slow = [1, 2, 3, 4, 5, 6].map((plug) =>
      agents.status(method('fence_slow', { parameters: { plug: String(plug) } }), 'fencing'),
    );
    await until(() => [1, 2, 3, 4, 5, 6].every((plug) => existsSync(join(bench.directory, `slow${plug}`))));
    const orderedMs = clock.monoMs();
    const late = agents.command(method('fence_a'), 'off', always);
    await until(() => clock.monoMs() - orderedMs > 3_100);
    writeFileSync(join(bench.directory, 'go'), '');
    expect(detailOf((await late).saysDone)).toBe('it could not be begun within 3000 ms, and was not');
    await Promise.all(slow);
    expect(existsSync(join(bench.directory, 'ran'))).toBe(false);
  });
});

describe('runs at once', () => {
  it('are three for the patrol, four with silent nodes, six with fencings; fencings go first', async () => {
    const bench = aBench({
      fence_slow:
        'echo > "on-$(value plug)"; while [ ! -e "go-$(value plug)" ]; do sleep 0.02; done; echo "Status: ON"',
    });
    const { agents, method, directory } = bench;
    const begin = (plug: string, purpose: 'patrol' | 'dead' | 'fencing') =>
      agents.status(method('fence_slow', { parameters: { plug } }), purpose);
    // So that its metadata is known.
    writeFileSync(join(directory, 'go-first'), '');
    await begin('first', 'dead');
    const runs = [
      ...['p1', 'p2', 'p3', 'p4'].map((plug) => begin(plug, 'patrol')),
      ...['d1', 'd2'].map((plug) => begin(plug, 'dead')),
      ...['f1', 'f2', 'f3'].map((plug) => begin(plug, 'fencing')),
    ];
    const running = (): readonly string[] =>
      ['p1', 'p2', 'p3', 'p4', 'd1', 'd2', 'f1', 'f2', 'f3'].filter((plug) =>
        existsSync(join(directory, `on-${plug}`)),
      );
    await until(() => running().length === 6);
    expect(running()).toEqual(['p1', 'p2', 'p3', 'd1', 'f1', 'f2']);
    writeFileSync(join(directory, 'go-p1'), '');
    await until(() => running().length === 7);
    expect(running()).toContain('f3');
    for (const plug of ['p2', 'p3', 'p4', 'd1', 'd2', 'f1', 'f2', 'f3'])
      writeFileSync(join(directory, `go-${plug}`), '');
    for (const run of runs) expect((await run).power).toEqual({ known: true, value: 'on' });
  });
});
