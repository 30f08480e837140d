import { X509Certificate } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import { createSecureContext, type SecureContext } from 'node:tls';
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';
import { isObject, isText, partOf } from '../../core/shape.ts';
import { MAX_DOCUMENT_BYTES, parseDocuments } from '../../document/document.ts';
import { sayProblem } from '../../document/problem.ts';
import { isDenied } from '../../host/file-error.ts';
import { distrust, readDocument, readText } from '../../host/files.ts';
import { IN_CLUSTER } from './connection.ts';

/** The address of the API server and our credentials, as read from the files. */
export type Credentials = {
  /** For node:https, without an agent. */
  readonly server: { readonly host: string; readonly port: number; readonly servername?: string };
  /** Prefix of every API path; usually ''. */
  readonly prefix: string;
  readonly secureContext: SecureContext;
  readonly headers: { readonly [name: string]: string };
  /** The validity of the client certificate; null: there is none, and a token identifies us. */
  readonly certificate: { readonly fromWallMs: number; readonly toWallMs: number } | null;
  /** The files from which all this was read. */
  readonly files: readonly string[];
  /** Equal stamps mean equal credentials. */
  readonly stamp: string;
};

const MAX_TOKEN_BYTES = 64 * 1024;
type Json = { readonly [name: string]: unknown };

/**
 * Reads the current context of a kubeconfig, or of `in-cluster`. Malformed, with a sentence: it demands something that a root daemon refuses
 * (beside-a-kubelet.md G8). Never rejects. Each call reads the files again (G7).
 *
 * The package supplies only the options for node:https. Its `agent` is dropped: it would keep the certificates of the first
 * call and honour proxy variables of the environment. It does not support `tokenFile` and does not trim tokens.
 * `alsoTrusted`: certificates for a server other than the API server.
 */
export async function readCredentials(
  kubeconfig: string,
  alsoTrusted: string | null = null,
): Promise<Reading<Credentials>> {
  const document = readKubeconfig(kubeconfig);
  if (!document.known) return document;
  try {
    return await credentialsOf(document.value, kubeconfig, alsoTrusted);
  } catch (cause) {
    return unknown('unreadable', kubeconfig, sayCause(cause));
  }
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** As client-go finds it; whoever mounts the files is the kubelet. */
function inCluster(env: NodeJS.ProcessEnv): Reading<Json> {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '' } = env;
  if (host === '' || port === '') {
    return unknown('absent', IN_CLUSTER, 'this is no pod: KUBERNETES_SERVICE_HOST is not set; name a kubeconfig');
  }
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return known({
    'current-context': IN_CLUSTER,
    contexts: [{ name: IN_CLUSTER, context: { cluster: IN_CLUSTER, user: IN_CLUSTER } }],
    clusters: [{ name: IN_CLUSTER, cluster: { server, 'certificate-authority': `${SERVICE_ACCOUNT}/ca.crt` } }],
    users: [{ name: IN_CLUSTER, user: { tokenFile: `${SERVICE_ACCOUNT}/token` } }],
  });
}

function readKubeconfig(path: string): Reading<Json> {
  if (path === IN_CLUSTER) return inCluster(process.env);
  const text = readDocument(path, MAX_DOCUMENT_BYTES);
  if (!text.known && isDenied(text)) return text;
  const why = distrust(path);
  if (why !== null) return unknown('malformed', path, why);
  if (!text.known) return text;
  const { documents, problems } = parseDocuments(text.value, path, 'core');
  const [problem] = problems;
  if (problem !== undefined) return unknown('malformed', path, sayProblem(problem));
  const value = documents[0]?.value;
  return documents.length === 1 && isObject(value) ? known(value) : unknown('malformed', path, 'not a kubeconfig');
}

async function credentialsOf(document: Json, path: string, alsoTrusted: string | null): Promise<Reading<Credentials>> {
  const config = new KubeConfig();
  config.loadFromString(JSON.stringify(document));
  config.makePathsAbsolute(directoryOf(path));
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  if (cluster === null || user === null) {
    const text = 'its current-context does not name a cluster and a user of this file';
    return unknown('malformed', path, text);
  }
  const given = userIn(document, user.name);
  const refused = refusalOf(cluster, given);
  if (refused !== null) return unknown('malformed', path, refused);
  const token = readToken(given, directoryOf(path));
  if (!token.known) return token;
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, servername } = options;
  const { hostname, port, pathname } = new URL(cluster.server);
  const { text, file } = token.value;
  const headers: Credentials['headers'] = text === null ? {} : { authorization: `Bearer ${text}` };
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return known({
    server: { host, port: port === '' ? 443 : Number(port), ...(servername === undefined ? {} : { servername }) },
    prefix: pathname.replace(/\/+$/, ''),
    secureContext: createSecureContext({ ca: trusted(ca, alsoTrusted), cert, key, minVersion: 'TLSv1.2' }),
    headers,
    certificate: cert === undefined ? null : lifeOf(String(cert)),
    files: [path === IN_CLUSTER ? null : path, cluster.caFile, user.certFile, user.keyFile, file].filter((name) =>
      isText(name),
    ),
    stamp: JSON.stringify([cluster.server, servername, ca, cert, key, text].map((part) => String(part))),
  });
}

type Authorities = NonNullable<RequestOptions['ca']>;
function trusted(ca: RequestOptions['ca'], also: string | null): Authorities | undefined {
  if (also === null) return ca;
  return [...(ca === undefined ? [] : [ca].flat()), also];
}

/** As written: the package drops fields that it does not know. */
function userIn(document: Json, name: string): Json {
  const users: unknown = document['users'];
  const found: unknown = Array.isArray(users) ? users.find((entry) => isObject(entry) && entry['name'] === name) : null;
  return partOf(found, 'user');
}

/** Why credentials are refused (G8), as a sentence; null: they are not. */
function refusalOf(
  cluster: { readonly server: string; readonly skipTLSVerify?: boolean; readonly proxyUrl?: string },
  user: Json,
): string | null {
  if (!URL.canParse(cluster.server)) return `cluster.server is not a URL: ${cluster.server}`;
  if (new URL(cluster.server).protocol !== 'https:') {
    return `cluster.server must begin with https://, it is ${cluster.server}`;
  }
  if (cluster.skipTLSVerify) {
    return 'insecure-skip-tls-verify is refused: anyone on the network could impersonate the API server; set certificate-authority';
  }
  if (cluster.proxyUrl) return 'proxy-url is refused: the agent connects to the API server only directly';
  for (const [field, why] of REFUSED) if (user[field] !== undefined && user[field] !== null) return `${field} ${why}`;
  return null;
}
const REFUSED: readonly (readonly [string, string])[] = [
  ['exec', 'is refused: a daemon of root runs no plugin for its credentials; use a client certificate or a tokenFile'],
  [
    'auth-provider',
    'is refused: a daemon of root runs no plugin for its credentials; use a client certificate or a tokenFile',
  ],
  ['as', 'is refused: the agent does not impersonate anyone'],
  ['username', 'is refused: API servers accept no passwords since 1.19'],
];

function readToken(
  user: Json,
  directory: string,
): Reading<{ readonly text: string | null; readonly file: string | null }> {
  const { tokenFile, token } = user;
  // If both are given, the file is the one that is renewed, as in client-go.
  if (!isText(tokenFile)) return known({ text: isText(token) ? token.trim() : null, file: null });
  const file = tokenFile.startsWith('/') ? tokenFile : `${directory}/${tokenFile}`;
  const read = readText(file, MAX_TOKEN_BYTES, 'followed');
  if (!read.known) return read;
  const text = read.value.trim();
  return /^[\x21-\x7e]+$/.test(text) ? known({ text, file }) : unknown('malformed', file, 'not a token');
}

function lifeOf(pem: string): Credentials['certificate'] {
  const { validFrom, validTo } = new X509Certificate(pem);
  return { fromWallMs: Date.parse(validFrom), toWallMs: Date.parse(validTo) };
}

const directoryOf = (path: string): string => path.slice(0, Math.max(1, path.lastIndexOf('/')));
