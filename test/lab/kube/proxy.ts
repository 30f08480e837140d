// Between the agent and the API server: connections that can be cut, counted and held.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { parse, stringify } from 'yaml';
import { RUN } from './cluster.ts';

export type Proxy = {
  /** A kubeconfig of the agent that leads here. */
  readonly kubeconfig: string;
  readonly connections: () => number;
  /** Cuts what is connected; how many that were. */
  readonly cut: () => number;
  readonly close: () => void;
};

export async function openProxy(): Promise<Proxy> {
  const config = parse(fs.readFileSync(path.join(RUN, 'nodewarden.conf'), 'utf8'));
  const { port: behind } = new URL(config.clusters[0].cluster.server);
  const pairs = new Set<net.Socket>();
  const server = net.createServer((near) => {
    const far = net.connect(Number(behind), '127.0.0.1');
    pairs.add(near);
    const end = (): void => {
      pairs.delete(near);
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) socket.on('error', end).on('close', end);
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  config.clusters[0].cluster.server = `https://127.0.0.1:${address.port}`;
  const kubeconfig = path.join(RUN, 'proxied.conf');
  fs.writeFileSync(kubeconfig, stringify(config), { mode: 0o600 });
  const cut = (): number => {
    const count = pairs.size;
    // A reset, as a broken middlebox sends it, and no orderly end.
    for (const near of pairs) near.resetAndDestroy();
    return count;
  };
  return {
    kubeconfig,
    connections: () => pairs.size,
    cut,
    close: () => {
      server.close();
      cut();
      fs.rmSync(kubeconfig);
    },
  };
}
