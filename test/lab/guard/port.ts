// The kubelet's port of a machine of the lab.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { RUN } from '../kube/cluster.ts';

/** `silent`: connections are taken and never answered, as by a machine behind a firewall that drops. */
export type PortState = 'answers' | 'refused' | 'silent';
export type Port = { readonly set: (state: PortState) => Promise<void> };

const KUBELET_PORT = 10_250;

export function createPort(address: string): Port {
  const sockets = new Set<net.Socket>();
  let server: net.Server | null = null;
  let now: PortState = 'refused';
  let turn = Promise.resolve();

  const pki = (name: string): Buffer => fs.readFileSync(path.join(RUN, 'pki', name));
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    const old = server;
    server = null;
    await new Promise<void>((resolve) => (old === null ? resolve() : void old.close(() => resolve())));
  };
  const open = async (state: PortState): Promise<void> => {
    await close();
    if (state === 'refused') return;
    const next =
      state === 'answers' ? tls.createServer({ key: pki('server.key'), cert: pki('server.crt') }) : net.createServer();
    next.on('connection', (socket: net.Socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    });
    next.on('tlsClientError', () => undefined);
    await new Promise<void>((resolve, reject) => {
      next.on('error', reject);
      next.listen(KUBELET_PORT, address, () => resolve());
    });
    server = next;
  };
  return {
    set: (state) => {
      turn = turn.then(async () => {
        if (state === now) return;
        now = state;
        await open(state);
      });
      return turn;
    },
  };
}
