import { known, type Reading, unknown } from '../../core/reading.ts';
import { isObject } from '../../core/shape.ts';
import { readText } from '../../host/files.ts';
import type { Clock } from '../../ports.ts';
import { readCredentials } from './credentials.ts';
import { exchange } from './exchange.ts';

const PORT = 10_250;
const DEADLINE_MS = 5_000;
const MAX_BYTES = 1024 * 1024;
const MAX_PEM_BYTES = 64 * 1024;

/**
 * The effective configuration of this machine's kubelet as JSON, read from the kubelet's own port: through the API server it
 * would require the right to nodes/proxy, which is never requested (D14). Kubelets before 1.33 require that right here too.
 * The peer is proven by the CA of the kubeconfig, or by the self-signed certificate of a kubelet without one. Never rejects.
 */
export async function readConfigz(needs: {
  readonly clock: Clock;
  readonly kubeconfig: string;
  readonly nodeName: string;
  readonly kubeletDirectory: string;
  readonly port?: number;
}): Promise<Reading<string>> {
  const { port = PORT } = needs;
  const where = `https://127.0.0.1:${port}/configz`;
  const ownMade = readText(`${needs.kubeletDirectory}/pki/kubelet.crt`, MAX_PEM_BYTES);
  const credentials = await readCredentials(needs.kubeconfig, ownMade.known ? ownMade.value : null);
  if (!credentials.known) return credentials;
  const { secureContext, headers } = credentials.value;
  const wire = {
    ...{ host: '127.0.0.1', port, servername: needs.nodeName, method: 'GET', path: '/configz', headers },
    ...{ secureContext, agent: false as const, rejectUnauthorized: true },
  };
  const said = await exchange(needs.clock, wire, {
    deadlineMs: DEADLINE_MS,
    maxBytes: MAX_BYTES,
    heard: () => undefined,
  });
  if (said.kind === 'none') return unknown('unreadable', where, said.detail);
  if (said.status !== 200) return unknown('unreadable', where, `it answers ${said.status}`);
  const config = isObject(said.body) ? said.body['kubeletconfig'] : null;
  return isObject(config)
    ? known(JSON.stringify(config))
    : unknown('malformed', where, 'no configuration of a kubelet');
}
