import { expect, it } from 'vitest';
import { parseDocuments } from '../../../src/document/document.ts';
import { runEviction } from '../../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../../src/simulate/eviction/scenario.ts';
import { MI } from '../../a.ts';

const pod = (name: string, uid: string, priority = 0) => ({
  metadata: { name, uid },
  spec: { priority, containers: [{ name: 'main' }] },
});
const at = (seconds: number, web: string, withUid: boolean) => ({
  at: `${seconds}s`,
  pods: [pod('web', web), pod('db', 'db', 5)],
  summary: {
    node: { memory: { availableBytes: 50 * MI, workingSetBytes: 3_500 * MI } },
    pods: [
      { podRef: { name: 'web', ...(withUid ? { uid: web } : {}) }, memory: { workingSetBytes: 900 * MI } },
      { podRef: { name: 'db' }, memory: { workingSetBytes: 100 * MI } },
    ],
  },
});

it.each([true, false])(
  'what a pod uses that has the name of a killed one does not count as freed, whether stats name uids (%s) or not',
  (withUid) => {
    const scenario = {
      ...{ apiVersion: 'nodewarden.dev/v1alpha1', kind: 'EvictionScenario', metadata: { name: 'replaced' } },
      config: { evictionHard: { 'memory.available': '100Mi' } },
      steps: [at(0, 'one', withUid), at(10, 'one', withUid), at(60, 'two', withUid)],
    };
    const [document] = parseDocuments(JSON.stringify(scenario), 'file', 'ours').documents;
    const read = document === undefined ? null : readEvictionScenario(document);
    if (!read?.scenario) throw new Error(JSON.stringify(read?.problems));
    const looks = [...runEviction(read.scenario, read.scenario.config, true)];
    expect(
      looks.map(({ decisions }) => decisions.flatMap((one) => (one.kind === 'evict' ? [one.victim.uid] : []))),
    ).toEqual([['one'], [], ['two']]);
  },
);
