/** The flags of a kubelet's command line that affect where it evicts (beside-a-kubelet.md F1). */
export type KubeletFlags = {
  /** Null: it has no file. */
  readonly config: string | null;
  readonly configDir: string | null;
  /** Fields of a KubeletConfiguration that a flag sets: each replaces that of the file as a whole. */
  readonly fields: { readonly [name: string]: { readonly [signal: string]: string } };
};

const MAPS: readonly { readonly flag: string; readonly field: string; readonly between: string }[] = [
  { flag: 'eviction-hard', field: 'evictionHard', between: '<' },
  { flag: 'eviction-soft', field: 'evictionSoft', between: '<' },
  { flag: 'eviction-soft-grace-period', field: 'evictionSoftGracePeriod', between: '=' },
  { flag: 'eviction-minimum-reclaim', field: 'evictionMinimumReclaim', between: '=' },
];

export function readKubeletFlags(argv: readonly string[]): KubeletFlags {
  const last = (name: string): string | null => valuesOf(argv, name).at(-1) ?? null;
  const fields = MAPS.flatMap(({ flag, field, between }) => {
    const values = valuesOf(argv, flag);
    return values.length === 0 ? [] : [[field, mapOf(values.join(','), between)] as const];
  });
  return { config: last('config'), configDir: last('config-dir'), fields: Object.fromEntries(fields) };
}

/** `--name=value` and `--name value`, with one dash or two. */
function valuesOf(argv: readonly string[], name: string): readonly string[] {
  return argv.flatMap((arg, at) => {
    const [, said, , value] = /^--?([a-z0-9-]+)(=(.*))?$/s.exec(arg) ?? [];
    if (said !== name) return [];
    const next = value ?? argv[at + 1];
    return next === undefined ? [] : [next];
  });
}

function mapOf(text: string, between: string): { readonly [signal: string]: string } {
  const entries = text.split(',').flatMap((entry) => {
    const at = entry.indexOf(between);
    return at < 0 ? [] : [[entry.slice(0, at).trim(), entry.slice(at + 1).trim()] as const];
  });
  return Object.fromEntries(entries);
}
