import { expect, it } from 'vitest';
import { tellTaintsInDryRun } from '../../src/guard/taints-in-dry-run.ts';
import type { Finding } from '../../src/ports.ts';
import { aMemory } from '../core/guard/a-node.ts';
import { aLook } from '../core/guard/a-turn.ts';

const TAINT = { key: 'node.kubernetes.io/out-of-service', value: 'nodewarden.w1-1', effect: 'NoExecute' };

/** The findings after looks at these nodes: with a taint of the guard, or of somebody else. */
function found(...looks: readonly { readonly dryRun: boolean; readonly taint: string }[]): readonly string[] {
  const findings = new Map<string, string>();
  const tell = tellTaintsInDryRun({
    raise: ({ id, text }: Finding) => void findings.set(id, text),
    clear: (id) => void findings.delete(id),
  });
  for (const { dryRun, taint } of looks) {
    const memory = aMemory({ of: { taints: [{ ...TAINT, value: taint }] } });
    const { state, observation, config } = aLook({ memory: null, others: [memory], config: { dryRun } });
    const next = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };
    tell({ observation, config, verdict: { state, decisions: [], reasons: [], next } });
  }
  return [...findings.values()];
}

it('a dry run that is loaded while a node carries the taint of the guard says that nobody removes it', () => {
  expect(found({ dryRun: true, taint: TAINT.value })).toEqual([
    expect.stringMatching(/^the guard has set w1 out of service, and a dry run neither watches nor ends that: /),
  ]);
  expect(found({ dryRun: true, taint: 'nodeshutdown' })).toEqual([]);
  expect(found({ dryRun: false, taint: TAINT.value })).toEqual([]);
  expect(found({ dryRun: true, taint: TAINT.value }, { dryRun: false, taint: TAINT.value })).toEqual([]);
});
