import { expect, it } from 'vitest';
import { createOwnNode } from '../../src/guard/nodes.ts';

type Needs = Parameters<typeof createOwnNode>[0];

const NODES = [
  { name: 'n1', bootId: 'b1' },
  { name: 'n2', bootId: 'b2' },
  { name: 'n3', bootId: '' },
  { name: 'n4', bootId: 'b2' },
];

it.each<[string, string, string | undefined, string | null, boolean]>([
  ['by the boot id of this machine', 'b1', undefined, 'n1', false],
  ['by NODE_NAME, in a sandbox with a kernel of its own', 'of-a-vm', 'n1', 'n1', false],
  ['by NODE_NAME, where no boot id can be read', '', 'n1', 'n1', false],
  ['by NODE_NAME, whatever another node says', 'b1', 'n2', 'n2', false],
  ['by the boot id, if NODE_NAME is no node', 'b1', 'laptop', 'n1', false],
  ['by the first one of several, which is said', 'b2', undefined, 'n2', true],
  ['outside the cluster', 'b9', undefined, null, false],
  ['where nothing is known of it', '', undefined, null, false],
])('the own node is known %s', (_, bootId, told, own, isUnclear) => {
  let isRaised = false;
  const findings = {
    raise: () => {
      isRaised = true;
    },
    clear: () => undefined,
    all: () => [],
  } as unknown as Needs['findings'];
  const nodes = { all: () => NODES.map((object) => ({ object })) } as unknown as Needs['nodes'];
  const env = told === undefined ? {} : { NODE_NAME: told };
  expect(createOwnNode({ nodes, findings, bootId, env })()).toBe(own);
  expect(isRaised).toBe(isUnclear);
});
