// Who is asked where the pods are, and does not answer: the bus, podman; and one who answers by another name.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { sleep } from '../../../src/host/clock.ts';
import { clock } from '../scene.ts';
import type { UnitTruth } from './truth.ts';
import { systemctl, type UnitPod, unitOf } from './unit-scene.ts';
import { DATABASE, others, untilOver } from './units.ts';

const NODE_MIB = 512;
const HARD = 'evictionHard: { memory.available: "100Mi" }';
const FILL = ['memory 1', `grow ${NODE_MIB} max`];
const FRESH: UnitPod = { name: 'fresh', requestMiB: 16, commands: FILL, isLate: true };
/** Each question has a deadline of 2 s. */
const HANGS_MS = 5_000;
const SLOW_MS = 2_500;
const PODMAN = '/usr/local/bin/podman';

/** While `body` runs whoever asks over the bus gets no answer; systemctl has a socket of its own. */
async function whileBusHangs(body: () => Promise<void>): Promise<void> {
  const pid = Number(systemctl('show', '-P', 'MainPID', 'dbus.service'));
  assert(pid > 1, 'there is no bus');
  process.kill(pid, 'SIGSTOP');
  try {
    await body();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

const hangingBus: UnitTruth = {
  name: 'a unit is restarted while the bus hangs, beside a database',
  spec: {
    pods: [DATABASE, ...others(3), { ...FRESH, commands: ['memory 4'], isLate: true }],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['fresh'],
  body: async (scene) => {
    // A run that is known and ends, then another one that nobody tells of.
    scene.start('fresh');
    await sleep(clock, 500);
    systemctl('stop', unitOf('fresh'));
    const file = `/run/systemd/system/${unitOf('fresh')}`;
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('memory 4"', `memory 4" "grow ${NODE_MIB} max"`));
    systemctl('daemon-reload');
    await whileBusHangs(async () => {
      await sleep(clock, HANGS_MS);
      scene.start('fresh');
      await untilOver(scene);
    });
    return '';
  },
};

const hangingBusFresh: UnitTruth = {
  name: 'a transient unit in a slice of its own appears while the bus hangs, beside a database',
  spec: { pods: [DATABASE, ...others(3), { ...FRESH, isTransient: true }], memoryMiB: NODE_MIB, config: [HARD] },
  culprits: ['fresh'],
  body: async (scene) => {
    await whileBusHangs(async () => {
      await sleep(clock, 500);
      scene.start('fresh');
      await untilOver(scene);
    });
    return '';
  },
};

/** An answer takes longer than anybody waits for it, but for the first ones. */
const slowBus: UnitTruth = {
  name: 'a unit grows beside a database while each answer from the bus takes more than 2 s',
  spec: {
    pods: [
      DATABASE,
      ...others(3),
      { name: 'fresh', requestMiB: 16, commands: ['memory 4', 'sleep 8', `grow ${NODE_MIB} max`] },
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['fresh'],
  body: async (scene) => {
    let isOver = false;
    const slow = (async () => {
      while (!isOver) {
        await whileBusHangs(() => sleep(clock, SLOW_MS));
        await sleep(clock, 50);
      }
    })();
    try {
      await untilOver(scene);
    } finally {
      isOver = true;
      await slow;
    }
    return '';
  },
};

const hungPodman: UnitTruth = {
  name: 'the agent starts while podman hangs and a threshold is met',
  spec: {
    pods: [
      ...Array.from({ length: 6 }, (_, i): UnitPod => ({ name: `a-${i}`, commands: '', isPodman: true, isLate: true })),
      { ...DATABASE, name: 'b-db', commands: ['memory 100'] },
      { name: 'z-hog', requestMiB: 16, commands: ['memory 280'] },
    ],
    memoryMiB: NODE_MIB,
    config: ['evictionHard: { memory.available: "150Mi" }'],
    isAgentLate: true,
  },
  culprits: ['z-hog'],
  body: async (scene) => {
    fs.writeFileSync(PODMAN, '#!/bin/sh\nexec sleep 1000\n', { mode: 0o755 });
    try {
      const startMs = clock.monoMs();
      await scene.agent.start();
      await untilOver(scene);
      return `over after ${Math.round(clock.monoMs() - startMs)} ms`;
    } finally {
      fs.rmSync(PODMAN);
    }
  },
};

const alias: UnitTruth = {
  name: 'a fresh unit with Restart=always whose manifest uses an alias',
  spec: {
    pods: [DATABASE, { ...FRESH, hasAlias: true, service: ['Restart=always', 'RestartSec=200ms'] }],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['fresh'],
  body: async (scene) => {
    scene.start('fresh');
    await untilOver(scene);
    await sleep(clock, 2_000);
    assert.equal(systemctl('show', '-P', 'MainPID', unitOf('fresh')), '0', 'it came back');
    return '';
  },
};

export const unansweredScenes: readonly UnitTruth[] = [hangingBus, hangingBusFresh, slowBus, hungPodman, alias];
