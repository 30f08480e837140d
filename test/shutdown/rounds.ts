/**
 * Rounds of taking and releasing the lock against the logind of this machine, with signals in flight. It restarts logind
 * and asks it for power-offs that systemd must be set up to refuse: only for a machine that is made for this.
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type { ShutdownEvent } from '../../src/core/observation.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { run } from '../../src/host/exec.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { LOCK_WHO, takeInhibitLock } from '../../src/host/systemd/inhibit-child.ts';
import { createLogind } from '../../src/host/systemd/logind.ts';
import { createLogindDropIn } from '../../src/host/systemd/logind-drop-in.ts';
import { keepInhibitor } from '../../src/shutdown/inhibitor.ts';

const ROUNDS = 300;
const NEEDED_MS = 8_000;
const HANG_MS = 120_000;
const LOGIND = ['org.freedesktop.login1', '/org/freedesktop/login1', 'org.freedesktop.login1.Manager'];
/** As many as there can be in one go, from somebody who is not logind. */
const FOREIGN = `while :; do
  for is in true false; do busctl emit ${LOGIND[1]} ${LOGIND[2]} PrepareForShutdown b $is; done
  busctl emit ${LOGIND[1]} org.freedesktop.DBus.Properties PropertiesChanged 'sa{sv}as' ${LOGIND[2]} 0 1 DelayInhibited
done`;

const clock = createClock();
const openDescriptors = (): number => readdirSync('/proc/self/fd').length;
const children = (): string => readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim();

async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = clock.monoMs() + HANG_MS;
  while (!(await isTrue())) {
    if (clock.monoMs() > endMs) throw new Error(`not within ${HANG_MS} ms: ${what}`);
    await sleep(clock, 2);
  }
}

async function command(...argv: readonly string[]): Promise<void> {
  const result = await run(argv, { timeoutMs: HANG_MS, maxOutputBytes: 1_000 });
  if (result.kind !== 'exited' || result.code !== 0) throw new Error(`${argv.join(' ')}: ${JSON.stringify(result)}`);
}

async function main(): Promise<void> {
  const bus = openSystemBus(clock);
  const logind = createLogind(bus, clock);
  const events: ShutdownEvent[] = [];
  const told = (kind: ShutdownEvent['kind']): number => events.filter((event) => event.kind === kind).length;
  const silent = (): void => undefined;
  const inhibitor = keepInhibitor({
    clock,
    logind,
    takeLock: () => takeInhibitLock(clock),
    dropIn: createLogindDropIn('/run/nodewarden'),
    log: { debug: silent, info: silent, warn: silent, error: silent },
    onEvent: (event) => void events.push(event),
  });
  const locks = async (whose: (who: string) => boolean): Promise<number> => {
    const listed = await logind.inhibitors();
    // While logind restarts nobody knows.
    return listed.known ? listed.value.filter(({ who }) => whose(who)).length : Number.NaN;
  };
  const isOurs = (who: string): boolean => who === LOCK_WHO;
  const isHeld = async (): Promise<boolean> => inhibitor.status().lock.kind === 'armed' && (await locks(isOurs)) === 1;
  const isGone = async (): Promise<boolean> => (await locks(isOurs)) === 0;
  const announce = async (): Promise<void> => {
    const before = told('preparing');
    await command('busctl', 'call', ...LOGIND, 'PowerOff', 'b', 'false');
    await until('the shutdown is heard', () => told('preparing') > before);
  };
  const taken = async (what: string): Promise<void> => {
    await until(`cancelled: ${what}`, () => told('cancelled') === told('preparing'));
    await until(`held: ${what}`, isHeld);
  };

  await until('the bus is up', () => logind.isUp());
  const othersBefore = await locks((who) => !isOurs(who));
  if (!(await isGone())) throw new Error('somebody holds a lock under our name');
  const foreign = spawn('/bin/sh', ['-c', FOREIGN], { stdio: 'ignore', detached: true });
  let descriptors = 0;
  let announced = 0;
  inhibitor.want(NEEDED_MS);
  try {
    for (let round = 1; round <= ROUNDS; round++) {
      await until(`held in round ${round}`, isHeld);
      // The first rounds open what is open from then on.
      if (round === 10) descriptors = openDescriptors();
      if (round % 50 === 0) await command('systemctl', 'restart', 'systemd-logind');
      if (round % 5 === 0) {
        await announce();
        announced += 1;
        if (round % 50 === 25) {
          // It forgets the shutdown, and tells nobody.
          await command('systemctl', 'kill', '--signal=KILL', 'systemd-logind');
          await taken('logind was killed');
        }
      }
      // Where a shutdown is under way systemd refuses it now, logind takes it back, and the lock is taken again.
      const isTakenBack = inhibitor.status().isPreparing;
      inhibitor.release();
      if (isTakenBack) await taken('refused by systemd');
      else {
        await until(`gone in round ${round}`, isGone);
        inhibitor.take();
      }
    }
    await until('held at the end', isHeld);
    const now = openDescriptors();
    if (now !== descriptors) throw new Error(`${descriptors} open descriptors after 10 rounds, ${now} at the end`);
  } finally {
    if (foreign.pid !== undefined) process.kill(-foreign.pid, 'SIGKILL');
  }
  if (told('preparing') !== announced) throw new Error(`${told('preparing')} shutdowns heard, ${announced} announced`);
  inhibitor.want(null);
  await until('off', () => inhibitor.status().lock.kind === 'off');
  await until('no lock of ours', isGone);
  const othersAfter = await locks((who) => !isOurs(who));
  if (othersAfter !== othersBefore) throw new Error(`${othersBefore} locks of others before, ${othersAfter} after`);
  await inhibitor.close();
  bus.close();
  await until(`no child: ${children()}`, () => children() === '');
  console.log(`figure lock rounds ${ROUNDS}`);
  console.log(
    `${announced} shutdowns announced and taken back; ${descriptors} open descriptors from the 10th round on`,
  );
}

main().catch((cause: unknown) => {
  console.error(cause);
  // What is left open must not hide that.
  process.exit(1);
});
