import { counted } from './phrases.ts';

/** What the agent says first. `file` null: there is none. */
export function startSentence({
  file,
  cgroupRoot,
  dryRun,
  thresholds,
}: {
  readonly file: string | null;
  readonly cgroupRoot: string;
  readonly dryRun: boolean;
  readonly thresholds: readonly unknown[];
}): string {
  const from = file === null ? 'no configuration file, all defaults' : `configuration ${file}`;
  const how = dryRun ? '; this is a dry run, and nothing is stopped' : '';
  const against = counted(thresholds.length, 'threshold');
  return `nodewarden monitors the cgroup ${cgroupRoot} against ${against} (${from})${how}`;
}
