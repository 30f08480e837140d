import type { Systemd } from './systemd.ts';

/** By then this process has ended. */
const SECONDS = 2;
/** $$: systemd makes $ of it. A machine that goes down ends this first. */
const START = `sleep ${SECONDS}; exec systemctl start --no-block -- "$$0"`;

/** Has a short-lived unit start the service of this process, unless a stop of that is ordered. `systemctl cancel` does not end it. */
export async function startOwnLater(systemd: Pick<Systemd, 'ownName' | 'unit' | 'startTransient'>): Promise<void> {
  const own = await systemd.ownName();
  if (!own.known) return;
  const name = own.value;
  const facts = await systemd.unit(name);
  if (!facts.known || (facts.value.hasJob && facts.value.isToStart !== true)) return;
  await systemd.startTransient(`nodewarden-come-back-${process.pid}.service`, [
    { name: 'Description', value: { signature: 's', value: `Starts ${name}, whose stop was cancelled` } },
    { name: 'ExecStart', value: { signature: 'a(sasb)', value: [['/bin/sh', ['/bin/sh', '-c', START, name], false]] } },
    // A stop of that service ends this as well, also when it is down already.
    { name: 'PartOf', value: { signature: 'as', value: [name] } },
    { name: 'CollectMode', value: { signature: 's', value: 'inactive-or-failed' } },
  ]);
}
