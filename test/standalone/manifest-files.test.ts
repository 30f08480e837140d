import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { valueOrNull } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import type { Finding } from '../../src/ports.ts';
import type { ManifestPod } from '../../src/standalone/manifests/manifest.ts';
import { createManifestFiles, type ManifestFiles } from '../../src/standalone/manifests/manifest-files.ts';

const manifest = (name: string, priority = 0): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, annotations: { nodewarden.dev/cgroup: ${name} } }\nspec: { priority: ${priority}, containers: [{ name: main }] }\n`;

describe('manifests that appear right before a choice (D13)', () => {
  let directory: string;
  let files: ManifestFiles;
  let findings: Map<string, Finding>;
  let wallMs: number;
  const at = (name: string): string => path.join(directory, name);
  const pods = (): readonly ManifestPod[] => valueOrNull(files.pods()) ?? [];
  const names = (): readonly string[] => pods().map(({ declared }) => declared.name);
  /** The kernel stamps a directory by its tick: what was just changed may change again under the same stamp. */
  const quiet = (): void => {
    wallMs += 10_000;
  };

  beforeEach(async () => {
    directory = mkdtempSync(path.join(tmpdir(), 'nodewarden-manifests-'));
    findings = new Map();
    wallMs = Date.now();
    files = createManifestFiles({
      podManifests: directory,
      findings: {
        raise: (finding) => void findings.set(finding.id, finding),
        clear: (id) => void findings.delete(id),
        all: () => [...findings.values()],
      },
      clock: { ...createClock(), wallMs: () => wallMs },
    });
    writeFileSync(at('web.yaml'), manifest('web'));
    await files.read();
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it('are read at once', async () => {
    expect(await files.readNew()).toBe(false);
    writeFileSync(at('hog.yaml'), manifest('hog'));
    expect(await files.readNew()).toBe(true);
    expect(names()).toEqual(['web', 'hog']);
    expect(await files.readNew()).toBe(false);
  });

  it('are read even if the directory had changed within the same clock tick', async () => {
    await files.readNew();
    writeFileSync(at('one.yaml'), manifest('one'));
    await files.readNew();
    writeFileSync(at('two.yaml'), manifest('two'));
    expect(await files.readNew()).toBe(true);
    expect(names()).toEqual(['web', 'one', 'two']);
  });

  it.each([
    ['empty', ''],
    ['cut', manifest('hog').slice(0, 60)],
  ])('are skipped silently while they are %s, and read once they are complete', async (_, part) => {
    quiet();
    await files.read();
    writeFileSync(at('hog.yaml'), part);
    quiet();
    expect(await files.readNew()).toBe(false);
    expect(findings.size).toBe(0);
    writeFileSync(at('hog.yaml'), manifest('hog'));
    quiet();
    expect(await files.readNew()).toBe(true);
    expect(names()).toEqual(['web', 'hog']);
  });

  it('replace a file that was renamed, without a finding', async () => {
    renameSync(at('web.yaml'), at('web-2.yaml'));
    await files.readNew();
    expect(names()).toEqual(['web']);
    expect(pods()[0]?.problem('').file).toBe(at('web-2.yaml'));
    expect(findings.size).toBe(0);
    await files.read();
    expect(names()).toEqual(['web']);
    expect(findings.size).toBe(0);
  });

  it('leave in force what an editor has moved away', async () => {
    rmSync(at('web.yaml'));
    writeFileSync(at('hog.yaml'), manifest('hog'));
    await files.readNew();
    expect(names()).toEqual(['hog', 'web']);
    await files.read();
    expect(names()).toEqual(['hog']);
  });

  it('are refused, with a finding, once the directory is read as a whole, if a pod has their name', async () => {
    writeFileSync(at('again.yaml'), manifest('web', 1_000));
    await files.readNew();
    expect(pods().map(({ declared }) => declared.priority)).toEqual([0]);
    expect(await files.read()).toBe(true);
    expect(pods().map(({ declared }) => declared.priority)).toEqual([0]);
    expect([...findings.values()].map(({ text }) => text)).toEqual([
      expect.stringMatching(/again\.yaml.*web\.yaml already defines a pod with the name default\/web/),
    ]);
    rmSync(at('again.yaml'));
    await files.read();
    expect([...findings.values()]).toEqual([]);
  });

  it('are named with what is hardly meant in them, until it is mended or the file is gone', async () => {
    const doubts = () => [...findings.values()].map(({ text }) => text);
    writeFileSync(at('hog.yaml'), manifest('hog').replace('priority', 'prioritty'));
    await files.readNew();
    await files.read();
    const said = expect.stringMatching(
      /hog\.yaml:4:9: spec\.prioritty: unknown field.*; the manifest is valid all the same$/,
    );
    expect(doubts()).toEqual([said]);
    writeFileSync(at('hog.yaml'), manifest('hog', 10));
    quiet();
    await files.read();
    expect(doubts()).toEqual([]);
    writeFileSync(at('hog.yaml'), manifest('hog', 10).replace('priority', 'prioritty'));
    quiet();
    await files.read();
    expect(doubts()).toEqual([said]);
    rmSync(at('hog.yaml'));
    await files.read();
    expect(doubts()).toEqual([]);
  });
});
