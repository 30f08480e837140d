import { Option } from 'commander';
import { createClock } from '../../host/clock.ts';
import { kindOf } from '../../host/files.ts';
import { type GuardConnection, IN_CLUSTER } from '../../kube/api/connection.ts';
import type { Clock, Findings } from '../../ports.ts';

export type Api = { readonly clock: Clock; readonly connection: GuardConnection };

export const kubeconfigOption = (): Option =>
  new Option('--kubeconfig <file>', 'Your own kubeconfig (default: $KUBECONFIG, else ~/.kube/config)');
export const namespaceOption = (): Option =>
  new Option('-n, --namespace <name>', 'Namespace of the guard').default('nodewarden-guard');

/** Runs with a connection by the kubeconfig, which is closed at the end. */
export async function withApi<T>(kubeconfig: string, run: (api: Api) => Promise<T>): Promise<T> {
  // Loaded with a TLS stack, which no other command needs.
  const { openConnection } = await import('../../kube/api/open-connection.ts');
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
  return named ?? (first === '' ? `${HOME === '/' ? '' : HOME}/.kube/config` : first);
}

/**
 * As kubectl: in a pod without a kubeconfig, its ServiceAccount. Only to read: an order is given with a person's own
 * credentials, which the audit log of the API server names.
 */
export function readersKubeconfig(named: string | undefined): string {
  const file = personsKubeconfig(named);
  const isNamed = named !== undefined || (process.env['KUBECONFIG'] ?? '') !== '';
  const isInPod = process.env['KUBERNETES_SERVICE_HOST'] !== undefined;
  return isInPod && !isNamed && kindOf(file) === null ? IN_CLUSTER : file;
}
