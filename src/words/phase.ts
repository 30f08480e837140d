type Begins = { readonly phase: number; readonly fromPriority: number };

/** kubelet-shutdown.md 4.3: lower priorities than the first phase's fall into it too. */
export function sayPriorities({ phase, fromPriority }: Begins, all: readonly Begins[]): string {
  const next = all[phase]?.fromPriority;
  if (next === undefined) return all.length === 1 ? 'every priority' : `priority ${fromPriority} and above`;
  if (phase === 1) return `priorities below ${next}`;
  return next - 1 <= fromPriority ? `priority ${fromPriority}` : `priorities ${fromPriority} to ${next - 1}`;
}
