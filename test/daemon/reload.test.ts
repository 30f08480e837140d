import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createReload, type Loaded, loadToRun } from '../../src/daemon/reload.ts';
import type { Finding } from '../../src/ports.ts';
import { createLog } from '../../src/record/writing/log.ts';
import { clock, directory, file, write } from './a-daemon.ts';

function loadedNow(): Loaded {
  const loaded = loadToRun(file, () => {});
  if (loaded === null) throw new Error('not loaded');
  return loaded;
}

/** The reload of an agent that runs with `loaded`, and what came of it. */
function reloading(loaded: Loaded, configFile: string | null = file) {
  const applied: Loaded[] = [];
  const raised: Finding[] = [];
  const reload = createReload({
    clock,
    log: createLog('error', { writeLine: () => {} }),
    findings: { raise: (finding) => raised.push(finding), clear: () => {}, all: () => [] },
    configFile,
    loaded,
    apply: (next) => applied.push(next),
  });
  return { reload, applied, raised };
}

describe('a reload', () => {
  it('of a file that was read and is gone leaves what is in force, named or at the default path', () => {
    write(['evictionHard: { memory.available: "7Mi" }', 'dryRun: true']);
    const loaded = loadedNow();
    renameSync(file, join(directory, 'moved.yaml'));
    // Null: as an agent without --config, which has read the file at the default path.
    for (const configFile of [file, null]) {
      const { reload, applied, raised } = reloading(loaded, configFile);
      expect(applied).toEqual([]);
      expect(reload.last()).toMatchObject({ ok: false });
      expect(raised.map(({ text }) => text)).toEqual([
        `the configuration was not reloaded, and the running one stays in force: ${file}: was read before, and does not exist any more`,
      ]);
      reload.close();
    }
  });

  it('of a file that is there again takes it', () => {
    write(['evictionHard: { memory.available: "7Mi" }']);
    const loaded = loadedNow();
    rmSync(file);
    const { reload, applied } = reloading(loaded, null);
    write(['evictionHard: { memory.available: "8Mi" }']);
    reload.now();
    reload.close();
    expect(applied.map(({ effective }) => effective.file)).toEqual([file]);
  });

  it('of a file whose imported one is gone leaves what is in force', () => {
    const kubelet = join(directory, 'kubelet.yaml');
    writeFileSync(kubelet, 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n', { mode: 0o600 });
    write([`kubeletConfig: ${kubelet}`]);
    const loaded = loadedNow();
    rmSync(kubelet);
    const { reload, applied } = reloading(loaded);
    reload.close();
    expect(applied).toEqual([]);
    expect(reload.last()?.text).toContain(`${kubelet} does not exist`);
  });
});
