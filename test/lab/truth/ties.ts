// D16: what stops along with a pod changes while the agent runs, by units that are nobody's.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import type { UnitTruth } from './truth.ts';
import { LOAD, systemctl, type UnitPod, type UnitScene, unitOf } from './unit-scene.ts';
import { DATABASE, FILL, HARD, NODE_MIB, others, untilOver } from './units.ts';

/** It goes before the database, and after every pod that stops nobody else. */
const FRESH: UnitPod = { name: 'fresh', priority: 500, requestMiB: 16, commands: FILL, isLate: true };
const nobodys = (name: string, ...unit: readonly string[]): UnitPod => ({
  name,
  unit,
  commands: 'exec /bin/sleep infinity',
  isNobodys: true,
});

/** What `explain` says of a threshold that is met. */
const MET = /memory\.available: no pod may be evicted/;
const explained = (): string => execFileSync('nodewarden', ['explain'], { encoding: 'utf8' });
/** The hog comes once `explain` says so. */
async function freshOnceSaid(scene: UnitScene, what: RegExp): Promise<string> {
  await until(`explain says ${what.source}`, () => what.test(explained()) || null, 60_000);
  scene.start(FRESH.name);
  await untilOver(scene);
  return '';
}

/** So many are looked at within 10 s, and each counts twice: when it is to start, and when it has. */
const STRANGERS: readonly UnitPod[] = others(25).map((pod) => ({ ...pod, isNobodys: true, isLate: true }));
const LATE: UnitPod = {
  ...nobodys('late', 'BindsTo=lab-base.service', 'After=lab-base.service', 'PropagatesStopTo=lab-db.service'),
  isLate: true,
};
const amongMany: UnitTruth = {
  name: `a unit that ties the database to a pod of low priority starts right after ${STRANGERS.length} others: the pod keeps the priority of the database`,
  spec: {
    pods: [DATABASE, { name: 'base', commands: ['memory 80'] }, FRESH, LATE, ...STRANGERS],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: [FRESH.name],
  body: async (scene) => {
    scene.start(...STRANGERS.map(({ name }) => name), LATE.name);
    return freshOnceSaid(scene, /lab\/base .*also stops .*lab\/db.*ranks with priority 1000, that of lab\/db/);
  },
};

const endsByItself: UnitTruth = {
  name: 'a unit ends by itself that also needed a pod with StopWhenUnneeded=yes: the pod that alone needs it now has its priority',
  spec: {
    pods: [
      { ...DATABASE, unit: ['StopWhenUnneeded=yes'] },
      { name: 'front', unit: ['Wants=lab-db.service'], commands: ['memory 60'] },
      nobodys('beside', 'Wants=lab-db.service'),
      FRESH,
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: [FRESH.name],
  body: async (scene) => {
    systemctl('kill', unitOf('beside'));
    return freshOnceSaid(scene, /lab\/front .*also stops .*lab\/db.*ranks with priority 1000, that of lab\/db/);
  },
};

/** The end of its process takes the machine down, until its file no longer says so. */
const REBOOTS = 'FailureAction=reboot';
const rebooting: UnitTruth = {
  name: `a manifest for a unit with ${REBOOTS} is added while a threshold is met and nobody else may go: it is not stopped`,
  spec: {
    pods: [
      { ...DATABASE, commands: [`memory ${NODE_MIB - 80}`], annotations: { 'nodewarden.dev/evict-for': 'none' } },
      { ...nobodys('web', REBOOTS), commands: ['memory 8'] },
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: [],
  evictions: { least: 0, most: 0 },
  body: async (scene) => {
    const mainPid = (): string => systemctl('show', '-P', 'MainPID', unitOf('web'));
    const before = mainPid();
    const isMet = (): boolean => MET.test(explained());
    await until('the threshold is met', () => isMet() || null, 60_000);
    // A lab that is rebooted tells nothing; the agent does not ask whether the reboot would succeed.
    systemctl('mask', '--runtime', '--quiet', 'reboot.target');
    const remove = scene.declare('web');
    try {
      await until(
        'explain says what its end would do',
        () => /lab\/web .*take the machine down/s.test(explained()) || null,
        60_000,
      );
      assert(isMet(), 'the threshold is no longer met: this proves nothing');
      // Several looks.
      await sleep(clock, 3_000);
      assert.equal(mainPid(), before, 'it was stopped');
    } finally {
      remove();
      await until('it is no pod any more', () => !explained().includes('lab/web') || null, 60_000);
      const file = `/run/systemd/system/${unitOf('web')}`;
      fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(REBOOTS, ''));
      systemctl('unmask', '--runtime', '--quiet', 'reboot.target');
      systemctl('daemon-reload');
    }
    return '';
  },
};

const stateOf = (unit: string): string => systemctl('show', '-P', 'ActiveState', unit);
/** Grows each time that its file is there. */
const GO = '/run/lab-go';
const GROWS_ONCE = `while [ ! -e ${GO} ]; do sleep 0.1; done; rm ${GO}; exec perl ${LOAD} 'grow ${NODE_MIB} max'`;
const JOB: UnitPod = {
  name: 'job',
  priority: 0,
  requestMiB: 16,
  commands: GROWS_ONCE,
  isLate: true,
  isRestarted: true,
};
const BESIDE_JOB: { readonly [unit: string]: string } = {
  'lab-job.timer': `[Unit]
Requires=lab-job.service
[Timer]
OnCalendar=yearly
`,
  'lab-job.socket': `[Unit]
PartOf=lab-job.service
[Socket]
ListenStream=/run/lab-job.sock
`,
};
const alongAgain: UnitTruth = {
  name: 'a job is evicted whose timer and socket stop along with it: all three run again afterwards',
  spec: { pods: [DATABASE, JOB], memoryMiB: NODE_MIB, config: [HARD] },
  culprits: [JOB.name],
  body: async (scene) => {
    const all = [unitOf(JOB.name), ...Object.keys(BESIDE_JOB)];
    const are = (state: string): boolean => all.every((unit) => stateOf(unit) === state);
    const files = Object.keys(BESIDE_JOB).map((unit) => path.join('/run/systemd/system', unit));
    try {
      for (const [unit, text] of Object.entries(BESIDE_JOB)) fs.writeFileSync(`/run/systemd/system/${unit}`, text);
      systemctl('daemon-reload');
      systemctl('start', 'lab-job.socket');
      systemctl('start', 'lab-job.timer');
      await until('all three run', () => are('active') || null);
      await until(
        'what stops along is known',
        () => /lab\/job .*also stops .*lab-job\.timer/s.test(explained()) || null,
        60_000,
      );
      fs.writeFileSync(GO, '');
      await untilOver(scene);
      await until('all three are down', () => !all.some((unit) => stateOf(unit) === 'active') || null);
      await until('all three run again', () => are('active') || null, 90_000);
      return '';
    } finally {
      systemctl('stop', ...all);
      for (const file of [...files, GO]) fs.rmSync(file, { force: true });
    }
  },
};

const BASE: UnitPod = { name: 'base', requestMiB: 16, commands: GROWS_ONCE, isLate: true };
const FRONT: UnitPod = {
  name: 'front',
  priority: 0,
  commands: ['memory 8'],
  unit: ['Requires=lab-base.service', 'After=lab-base.service'],
  isRestarted: true,
  isLate: true,
};
const staysDown: UnitTruth = {
  name: 'a unit that is to stay down after its eviction is not started by the restart of one that needs it',
  spec: { pods: [DATABASE, BASE, FRONT], memoryMiB: NODE_MIB, config: [HARD] },
  culprits: ['base'],
  body: async (scene) => {
    const base = unitOf('base');
    const front = unitOf('front');
    try {
      scene.start('base', 'front');
      await until('both run', () => (stateOf(base) === 'active' && stateOf(front) === 'active') || null);
      await until(
        'what stops along is known',
        () => /lab\/base .*also stops .*lab\/front/s.test(explained()) || null,
        60_000,
      );
      fs.writeFileSync(GO, '');
      await untilOver(scene);
      const said = (): string => execFileSync('nodewarden', ['status'], { encoding: 'utf8' });
      await until(
        'status says what it waits for',
        () => /needs lab-base\.service, which is to stay down/.test(said()) || null,
        90_000,
      );
      assert.notEqual(stateOf(base), 'active', 'it was started');
      systemctl('start', base);
      await until('what needs it follows', () => stateOf(front) === 'active' || null, 90_000);
      return '';
    } finally {
      systemctl('stop', front, base);
      fs.rmSync(GO, { force: true });
    }
  },
};

export const tieScenes: readonly UnitTruth[] = [amongMany, endsByItself, rebooting, alongAgain, staysDown];
