// Pressure on the file system of the images, which deleting unused images relieves.
import { sleep } from '../../../src/host/clock.ts';
import { type DecisionRecord, joinDecisions } from '../../../src/record/entry.ts';
import { readRecord } from '../../../src/record/reading/record-file.ts';
import { clock, until } from '../scene.ts';
import { ctr, imagefsFree, imageNames, loadImage, MIB } from './cluster.ts';
import { barePod, DATABASE, IMAGE } from './manifests.ts';
import type { KubeScene, Scene } from './scene.ts';

const THRESHOLD_MIB = 500;
const PAUSE = 'docker.io/lab/pause:1';
const USED = 'docker.io/lab/used:1';
const EXITED = 'docker.io/lab/exited:1';
const UNUSED_MIB = 60;
const unusedName = (index: number): string => `docker.io/lab/unused-${index}:1`;
const isUnused = (name: string): boolean => name.startsWith('docker.io/lab/unused-');

/** The agent lists the images once a minute, the first time when it knows a pod; an image is as old as its first listing. */
const LISTED_MS = 140_000;
/** One more of them crosses the threshold. */
const NEAR_MIB = THRESHOLD_MIB + UNUSED_MIB;

const reclaimsOf = (scene: Scene): readonly DecisionRecord[] =>
  scene.agent.isRunning()
    ? joinDecisions(readRecord(scene.agent.places.stateDirectory).entries).filter(
        ({ decision }) => decision.kind === 'reclaim',
      )
    : [];

const imageScene = (isOld: boolean): KubeScene => ({
  name: `pressure on imagefs is relieved by removing unused images alone${isOld ? '' : ', even if they were pulled a moment ago'}`,
  isOnAll: true,
  config: [`evictionHard: { imagefs.available: "${THRESHOLD_MIB}Mi" }`, 'imageMinimumGCAge: 1s'],
  culprits: [],
  evictions: { least: 0, most: 0 },
  body: async (scene) => {
    // An earlier run may have lost it.
    if (!imageNames().includes(IMAGE)) loadImage(IMAGE, 0);
    for (const name of [USED, EXITED]) loadImage(name, 20);
    await scene.create(
      barePod(DATABASE),
      barePod({ name: 'used', load: ['hold=8'], image: USED, requestMiB: 32, isInnocent: true }),
      // Its container has ended, and the pod is there: the image is in use.
      barePod({
        name: 'exited',
        load: ['when=/proc/self', 'into=/nowhere/x', 'grow=1'],
        image: EXITED,
        restart: 'Never',
      }),
    );
    for (const name of ['db', 'used']) await scene.ready(name);
    await until(
      'the third has ended',
      () => scene.podsOf('exited').find((pod) => pod['status'].phase === 'Failed') ?? null,
    );
    // It is not at the threshold before: the images stay.
    await sleep(clock, 3_000);
    const calm = imageNames();
    let loaded = 0;
    const fillTo = (mib: number): void => {
      // The agent may have made room again before this looks.
      while (imagefsFree() >= mib * MIB && reclaimsOf(scene).length === 0) {
        loadImage(unusedName(loaded), UNUSED_MIB);
        loaded += 1;
        if (loaded > 20) throw new Error('the file system of the images does not fill');
      }
    };
    if (isOld) {
      fillTo(NEAR_MIB + UNUSED_MIB);
      await sleep(clock, LISTED_MS);
    }
    try {
      fillTo(THRESHOLD_MIB);
    } catch (error) {
      // The one that is just being unpacked may be deleted too.
      if (!String(error).includes('not found')) throw error;
    }
    const crossedMs = clock.monoMs();
    await until('there is room again', () => imagefsFree() >= THRESHOLD_MIB * MIB || null, 60_000);
    const tookMs = Math.round(clock.monoMs() - crossedMs);
    await sleep(clock, 5_000);
    const left = imageNames();
    for (const name of [PAUSE, IMAGE, USED, EXITED]) {
      if (calm.includes(name) && !left.includes(name)) throw new Error(`${name} is in use, and it was deleted`);
    }
    if (reclaimsOf(scene).length === 0) throw new Error('no reclaim is in the record');
    await scene.create(barePod({ name: 'later', load: ['hold=8'], requestMiB: 32 }));
    await scene.ready('later');
    for (const name of imageNames().filter(isUnused)) ctr('images', 'rm', '--sync', name);
    return `${loaded} unused images filled it; room again after ${tookMs} ms, ${left.filter(isUnused).length} of them left, and a new pod started`;
  },
});

export const imageScenes: readonly KubeScene[] = [imageScene(true), imageScene(false)];
