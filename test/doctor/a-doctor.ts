import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { known } from '../../src/core/reading.ts';
import type { KubeFacts } from '../../src/doctor/facts.ts';
import type { DoctorReport } from '../../src/doctor/report.ts';
import { aCommand, type Ended } from '../cli/a-command.ts';

/** Beside a kubelet, with nothing to find. */
export const KUBE: KubeFacts = {
  nodeName: 'node-1',
  credentials: known(true),
  node: known(null),
  taints: [],
  outOfService: null,
  isCordonKept: false,
  rights: { missing: [], unread: null },
  budgets: known([]),
  firsts: known([]),
};

type Annotations = { readonly [name: string]: string };

/** For the tests of a `describe`: `nodewarden doctor` with a configuration, manifests and directories of its own. */
export function aDoctor() {
  const command = aCommand();
  const { path } = command;

  const configure = (...lines: readonly string[]): void => {
    mkdirSync(path('pods.d'), { recursive: true, mode: 0o755 });
    const own = { socket: 'nw.sock', podManifests: 'pods.d', stateDirectory: 'state', runtimeDirectory: 'run' };
    const text = [
      'apiVersion: nodewarden.dev/v1alpha1',
      'kind: NodewardenConfiguration',
      ...Object.entries(own).map(([field, name]) => `${field}: ${path(name)}`),
      ...lines,
    ];
    writeFileSync(path('config.yaml'), `${text.join('\n')}\n`, { mode: 0o644 });
  };
  const manifest = (name: string, annotations: Annotations, spec = ''): void => {
    const lines = Object.entries(annotations).map(([key, value]) => `    nodewarden.dev/${key}: "${value}"`);
    const text = `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n${lines.join('\n')}\nspec:\n  containers: [{ name: main }]\n${spec}`;
    writeFileSync(path(`pods.d/${name}.yaml`), text, { mode: 0o644 });
  };
  const run = (...args: readonly string[]): Promise<Ended> => command.run(['doctor', ...command.config(), ...args]);
  const reported = ({ out, err, code }: Ended): DoctorReport & { readonly code: number | null } => {
    if (err !== '') throw new Error(err);
    return { ...JSON.parse(out), code };
  };
  return {
    ...command,
    configure,
    manifest,
    run,
    report: async () => reported(await run('-o', 'json')),
    reportToNobody: async () => reported(await command.runAsNobody(['doctor', ...command.config(), '-o', 'json'])),
    removeManifests: () => rmSync(path('pods.d'), { recursive: true }),
  };
}

/** What it says under this code. Every command of the report can be pasted as it is. */
export function saidOf({ findings }: Pick<DoctorReport, 'findings'>, code: string): DoctorReport['findings'] {
  const blank = findings.find(({ mend }) => /<[a-z]+>/.test(mend ?? ''));
  if (blank !== undefined) throw new Error(`not filled in: ${JSON.stringify(blank)}`);
  return findings.filter((finding) => finding.code === code);
}
export const codesOf = ({ findings }: Pick<DoctorReport, 'findings'>, kind: string): readonly string[] =>
  findings.filter((finding) => finding.kind === kind).map(({ code }) => code);
