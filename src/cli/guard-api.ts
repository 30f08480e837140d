import { Option } from 'commander';
import { createClock } from '../host/clock.ts';
import type { GuardConnection } from '../kube/connection.ts';
import type { Clock, Findings } from '../ports.ts';

export type Api = { readonly clock: Clock; readonly connection: GuardConnection };

export const kubeconfigOption = (): Option =>
  new Option('--kubeconfig <file>', 'Your own kubeconfig (default: $KUBECONFIG, else ~/.kube/config)');
export const namespaceOption = (): Option =>
  new Option('-n, --namespace <name>', 'Namespace of the guard').default('nodewarden-guard');

/** Runs with a connection by the kubeconfig, which is closed at the end. */
export async function withApi<T>(kubeconfig: string, run: (api: Api) => Promise<T>): Promise<T> {
  // Loaded with a TLS stack, which no other command needs.
  const { openConnection } = await import('../kube/open-connection.ts');
  const clock = createClock();
  const connection = openConnection({ clock, kubeconfig, findings: NO_FINDINGS });
  try {
    return await run({ clock, connection });
  } finally {
    connection.close();
  }
}
/** They are a daemon's: an answer that does not come says the same. */
const NO_FINDINGS: Findings = { raise: () => undefined, clear: () => undefined, all: () => [] };

/** $KUBECONFIG may name several files; only the first one is read. */
export function personsKubeconfig(named: string | undefined): string {
  const { KUBECONFIG = '', HOME = '/root' } = process.env;
  const [first = ''] = KUBECONFIG.split(':');
  return named ?? (first === '' ? `${HOME}/.kube/config` : first);
}
