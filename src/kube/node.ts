import { known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { isObject, isText } from '../core/shape.ts';
import { isUid } from '../document/pod.ts';
import type { ApiGet, Connection } from './connection.ts';
import { messageOf } from './line-stream.ts';

/** What is read of the own Node object. */
export type ApiNode = { readonly name: string; readonly uid: string; readonly bootId: string };
/**
 * Whether a name is that of this machine. `another`: its kubelet runs on another machine, or has not told of this boot
 * yet: nothing may be done there (beside-a-kubelet.md D3).
 */
export type NodeVerdict =
  | { readonly kind: 'ours'; readonly node: ApiNode }
  | { readonly kind: 'another'; readonly detail: string }
  | { readonly kind: 'unknown'; readonly why: Unknown };
/** The versions in which `pods/eviction` has been served; null: the server has none. */
export type EvictionVersion = 'v1' | 'v1beta1' | null;

const DEADLINE_MS = 5_000;

/** Never rejects. */
export async function readNode(get: ApiGet, nodeName: string): Promise<Reading<ApiNode>> {
  const path = `/api/v1/nodes/${encodeURIComponent(nodeName)}`;
  const read = await getObject(get, path);
  if (!read.known) return read;
  const { metadata, status } = read.value;
  const { name, uid } = isObject(metadata) ? metadata : {};
  const info = isObject(status) ? status['nodeInfo'] : null;
  const bootId = isObject(info) ? info['bootID'] : null;
  if (name !== nodeName || !isText(name) || !isUid(uid)) return unknown('malformed', path, 'not the Node object');
  return isText(bootId) ? known({ name, uid, bootId }) : unknown('malformed', path, 'it has no status.nodeInfo.bootID');
}

/** `bootId`: of /proc/sys/kernel/random/boot_id, as the kubelet reads it. Never rejects. */
export async function verifyNode(get: ApiGet, nodeName: string, bootId: string): Promise<NodeVerdict> {
  const read = await readNode(get, nodeName);
  if (!read.known) return { kind: 'unknown', why: read };
  const node = read.value;
  if (node.bootId === bootId) return { kind: 'ours', node };
  const detail = `node ${nodeName} has bootID ${node.bootId.slice(0, 64)}, this machine has ${bootId}: set kubernetes.nodeName, or wait for the kubelet to tell of this boot`;
  return { kind: 'another', detail };
}

/**
 * In which version the server takes evictions: asked once for a connection, and again after an outage, for an API server
 * may come back as another version (beside-a-kubelet.md B1). Never rejects.
 */
export function discoverEviction({
  get,
  onState,
}: Pick<Connection, 'get' | 'onState'>): () => Promise<Reading<EvictionVersion>> {
  let found: Reading<EvictionVersion> | null = null;
  onState((state) => {
    if (state === 'away') found = null;
  });
  return async () => {
    if (found !== null) return found;
    const read = await getObject(get, '/api/v1');
    if (!read.known) return read;
    const { resources } = read.value;
    if (!Array.isArray(resources)) return unknown('malformed', '/api/v1', 'it has no resources');
    const eviction: unknown = resources.find((each) => isObject(each) && each['name'] === 'pods/eviction');
    const version = isObject(eviction) ? eviction['version'] : null;
    found = known(version === 'v1' || version === 'v1beta1' ? version : null);
    return found;
  };
}

async function getObject(get: ApiGet, path: string): Promise<Reading<{ readonly [name: string]: unknown }>> {
  const answer = await get(path, DEADLINE_MS);
  if (answer.kind === 'none') return unknown(answer.isTimeout ? 'timed-out' : 'unreadable', path, answer.detail);
  const { status, body, problem } = answer;
  if (status === 404) return unknown('absent', path, messageOf(body));
  if (status !== 200) return unknown('unreadable', path, `${status}: ${messageOf(body)}`);
  return isObject(body) ? known(body) : unknown('malformed', path, problem ?? 'no object');
}
