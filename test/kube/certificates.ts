import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const openssl = (...args: string[]): Buffer => execFileSync('openssl', args, { stdio: ['ignore', 'pipe', 'pipe'] });
const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** A directory with an authority, a server's certificate for 127.0.0.1, and those of clients as they are issued. */
export function createAuthority() {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-kube-'));
  const at = (name: string): string => path.join(directory, name);
  openssl('req', '-x509', ...EC, '-keyout', at('ca.key'), '-out', at('ca.crt'), '-subj', '/CN=a test', '-days', '30');
  let serial = 1;
  /** `days` 0: it has expired. */
  const issue = (name: string, subject: string, extensions = '', days = 30): void => {
    serial += 1;
    openssl('req', ...EC, '-keyout', at(`${name}.key`), '-out', at(`${name}.csr`), '-subj', subject);
    writeFileSync(at('extensions'), extensions);
    const by = ['-CA', at('ca.crt'), '-CAkey', at('ca.key'), '-set_serial', String(serial)];
    const out = ['-out', at(`${name}.crt`), '-days', String(days), '-extfile', at('extensions')];
    openssl('x509', '-req', '-in', at(`${name}.csr`), ...by, ...out);
  };
  issue('server', '/CN=kube-apiserver', 'subjectAltName=IP:127.0.0.1');
  issue('client', '/O=nodewarden:nodes/CN=nodewarden:node:node-1');
  return {
    directory,
    at,
    issue,
    read: (name: string): Buffer => readFileSync(at(name)),
    remove: () => rmSync(directory, { recursive: true }),
  };
}
export type Authority = ReturnType<typeof createAuthority>;

/** A kubeconfig beside the certificates, which it names by relative paths. Its path. */
export function writeKubeconfig(
  { at }: Authority,
  server: string,
  { user = {}, cluster = {} }: { readonly user?: object; readonly cluster?: object } = {},
): string {
  const file = at('kubeconfig');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'here', cluster: { server, 'certificate-authority': 'ca.crt', ...cluster } }],
    users: [{ name: 'agent', user: { 'client-certificate': 'client.crt', 'client-key': 'client.key', ...user } }],
    contexts: [{ name: 'agent@here', context: { cluster: 'here', user: 'agent' } }],
    'current-context': 'agent@here',
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}
