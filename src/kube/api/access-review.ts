import { isObject } from '../../core/shape.ts';
import type { ApiRight } from '../../words/finding-writes.ts';
import type { Connection } from './connection.ts';
import { notDone } from './write-failure.ts';

/** The server's answer about one right; `isAllowed` null: there is none, and `said` gives the reason. */
export type ReviewedRight = { readonly right: ApiRight; readonly isAllowed: boolean | null; readonly said: string };

const PATH = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const DEADLINE_MS = 3_000;

/** As in a SelfSubjectAccessReview; absent fields mean: any, or none. */
export type RightAttributes = {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
};
export type Reviewed = Omit<ReviewedRight, 'right'>;

/** Whether these credentials have the right; for nodes, on our own node. Only a query: the server stores nothing. */
export async function reviewRight(
  connection: Pick<Connection, 'send'>,
  right: ApiRight,
  nodeName: string,
): Promise<ReviewedRight> {
  const [verb = '', what = ''] = right.split(' ');
  const [resource = '', subresource = ''] = what.split('/');
  const of = resource === 'nodes' ? { name: nodeName } : {};
  const attributes = { verb, group: '', resource, ...(subresource === '' ? {} : { subresource }), ...of };
  return { right, ...(await reviewAttributes(connection, attributes)) };
}

/** As `reviewRight`, of any right. */
export async function reviewAttributes(
  connection: Pick<Connection, 'send'>,
  resourceAttributes: RightAttributes,
): Promise<Reviewed> {
  const answer = await connection.send({
    method: 'POST',
    path: PATH,
    contentType: 'application/json',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes },
    },
    deadlineMs: DEADLINE_MS,
  });
  const failed = notDone(answer, null);
  if (failed !== null) return { isAllowed: null, said: failed.text };
  const status = answer.kind === 'answer' && isObject(answer.body) ? answer.body['status'] : null;
  const allowed = isObject(status) ? status['allowed'] : null;
  if (typeof allowed !== 'boolean') return { isAllowed: null, said: 'the server gave no answer to the review' };
  const reason = isObject(status) && typeof status['reason'] === 'string' ? status['reason'] : '';
  return { isAllowed: allowed, said: reason === '' ? 'RBAC' : reason };
}
