import type { MonoMs } from '../../core/reading.ts';
import type { Circumstances, Counted } from './circumstances.ts';
import { type Fact, factsOf, type NodeName } from './facts.ts';
import { RENEWALS } from './scenario.ts';

/** A list's period, a look, and what a renewal comes late. */
const LISTED_MS = 12_000;
/** How long after it was last heard a guard must have seen that a node is suspect. */
export const seenAfterMs = ({ config, leaseEveryMs }: Circumstances): number =>
  Math.max(config.suspectAfterMs, RENEWALS * leaseEveryMs) + leaseEveryMs + LISTED_MS;
/** guard.md 6.3: a domain is disrupted from more than this many on. */
const DOMAIN_MORE_THAN = 2;
/** 0.3 x 10 is 3, whatever binary fractions say. */
const ROUNDING = 1e-9;

/** When each node that a guard must have seen silent was last heard. */
type Silent = ReadonlyMap<NodeName, MonoMs>;

/** G5: no first off of a fencing while more nodes were silent than the limits allow, unless a person said so. */
export function nothingFencedInAStorm(
  facts: readonly Fact[],
  around: Circumstances,
): readonly { readonly at: MonoMs; readonly text: string }[] {
  const exempt = new Set(factsOf(facts, 'decided').flatMap((one) => (one.isStormExempt ? [one.fencing] : [])));
  const begun = new Set<string>();
  const silent = new Map<NodeName, MonoMs>();
  const deleted = new Set<NodeName>();
  return facts
    .toSorted((a, b) => a.atMs - b.atMs)
    .flatMap((fact) => {
      if (fact.kind === 'node-deleted') deleted.add(fact.node);
      if (fact.kind === 'silent') silent.set(fact.node, fact.sinceMs);
      if (fact.kind === 'heard') silent.delete(fact.node);
      if (fact.kind !== 'command' || fact.action !== 'off' || begun.has(fact.fencing)) return [];
      begun.add(fact.fencing);
      if (exempt.has(fact.fencing)) return [];
      const isSeen = ([node, sinceMs]: readonly [NodeName, MonoMs]): boolean =>
        !deleted.has(node) && fact.atMs - sinceMs >= seenAfterMs(around);
      const seen = new Map([...silent].filter(isSeen));
      const storm = stormOn(fact.node, seen, silent.get(fact.node), around);
      return storm === null ? [] : [{ at: fact.atMs, text: `${fact.node} was fenced while ${storm}` }];
    });
}

/** What should have held that node; null: nothing. */
function stormOn(
  node: NodeName,
  seen: Silent,
  ownMs: MonoMs | undefined,
  { config, workers, apart, domains, controlPlane }: Circumstances,
): string | null {
  const { maxUnhealthyShare, domainShare, burst } = config.storm;
  const near = ownMs === undefined ? 0 : nearTo(ownMs, seen, burst.withinMs);
  if (near >= burst.nodes) return `${near} nodes had fallen silent together`;
  const isTooMany = (group: Counted): boolean =>
    silentIn(group, seen) > Math.max(1, Math.floor(maxUnhealthyShare * group.most + ROUNDING));
  // Whoever is counted apart does not hold the workers, but is held with them. The control plane is neither.
  const groups = [...(controlPlane.has(node) ? [] : [workers]), ...(apart.nodes.has(node) ? [apart] : [])];
  const group = groups.find(isTooMany);
  if (group !== undefined) return `${silentIn(group, seen)} of ${group.most} nodes were silent`;
  const isDisrupted = (domain: Counted): boolean => {
    const count = silentIn(domain, seen);
    return count > DOMAIN_MORE_THAN && count >= domainShare * domain.most - ROUNDING;
  };
  const domain = domains.find((one) => one.nodes.has(node) && isDisrupted(one));
  return domain === undefined ? null : `${silentIn(domain, seen)} of ${domain.most} nodes of its domain were silent`;
}

const silentIn = ({ nodes }: Counted, seen: Silent): number =>
  [...seen.keys()].filter((node) => nodes.has(node)).length;

/** Two leases that stop at one instant were last renewed up to a period apart, and seen up to a look apart. */
function nearTo(ownMs: MonoMs, seen: Silent, withinMs: number): number {
  return [...seen.values()].filter((sinceMs) => Math.abs(sinceMs - ownMs) <= (withinMs - 16_000) / 2).length;
}
