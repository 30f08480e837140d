import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openOwnFiles } from '../../src/daemon/own-files.ts';
import { createClock } from '../../src/host/clock.ts';
import { heardParts } from '../standalone/needs.ts';

const clock = createClock();

/** Own files that nothing watches but `look`, beside what would write the state again. */
function anAgent(save: (stateFile: string) => void) {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-own-'));
  const runtimeDirectory = join(directory, 'run');
  const stateDirectory = join(directory, 'record');
  const stateFile = join(runtimeDirectory, 'state.json');
  const { findings } = heardParts();
  const of = { clock, bootId: 'boot', findings, runtimeDirectory, stateDirectory, dryRun: false, stateFile };
  const own = openOwnFiles(of);
  onTestFinished(() => {
    own.close();
    rmSync(directory, { recursive: true });
  });
  own.watch({ rewrite: () => save(stateFile), checkRecord: () => undefined });
  let ms = clock.monoMs();
  const look = (): readonly string[] => {
    ms += 2_000;
    own.seen(ms);
    return findings.all().map(({ text }) => text.replace(/\(.*\)/, '()'));
  };
  return { runtimeDirectory, stateFile, look };
}
const removed = (directory: string): string =>
  `${directory}, or a file in it, was removed while the agent ran () and was recreated from memory`;

it('a state that could not be written yet, as on a full disk, was not removed', () => {
  let hasRoom = false;
  const { stateFile, look } = anAgent((path) => {
    if (hasRoom) writeFileSync(path, '{}');
  });
  expect([look(), look()]).toEqual([[], []]);
  hasRoom = true;
  expect([look(), look()]).toEqual([[], []]);
  rmSync(stateFile);
  expect(look()).toHaveLength(1);
});

it('a removed state is said to be recreated once it is there again', () => {
  let hasRoom = true;
  const { runtimeDirectory, stateFile, look } = anAgent((path) => {
    if (hasRoom) writeFileSync(path, '{}');
  });
  writeFileSync(stateFile, '{}');
  expect(look()).toEqual([]);
  hasRoom = false;
  rmSync(stateFile);
  expect(look()).toEqual([]);
  hasRoom = true;
  expect(look()).toEqual([removed(runtimeDirectory)]);
  expect(look()).toEqual([removed(runtimeDirectory)]);
});

it('a removed directory is said to be recreated, also before its first state', () => {
  const { runtimeDirectory, look } = anAgent(() => undefined);
  rmSync(runtimeDirectory, { recursive: true });
  expect(look()).toEqual([removed(runtimeDirectory)]);
  expect(look()).toEqual([removed(runtimeDirectory)]);
});
