/** In place of the path of a kubeconfig: the ServiceAccount of the pod that this runs in. */
export const IN_CLUSTER = 'in-cluster';

/**
 * The API server's answer to one request. `none`: no answer within the deadline, or no connection. `isTooMuch`: the answer is
 * larger than may be read, or was still arriving at the deadline.
 */
export type ApiAnswer = { readonly isTooMuch?: true } & (
  | {
      readonly kind: 'answer';
      readonly status: number;
      /** The parsed JSON. */
      readonly body: unknown;
      readonly retryAfterMs: number | null;
      /** Why `body` is null; absent: `body` is what was sent. */
      readonly problem?: string;
    }
  | { readonly kind: 'none'; readonly detail: string; readonly isTimeout: boolean }
);
/** beside-a-kubelet.md C1. `up`: an answer or bookmark within 90 s; `suspect`: one call past its deadline. */
export type ApiState = 'up' | 'suspect' | 'away';
/** `path` begins with `/api` or `/apis` and includes the query. Never rejects; `deadlineMs` is a timer of our own. */
export type ApiGet = (path: string, deadlineMs: number) => Promise<ApiAnswer>;
/** What may change something at the server; the body is sent as JSON. */
export type ApiRequest = {
  readonly method: 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly contentType: 'application/json' | 'application/strategic-merge-patch+json' | 'application/merge-patch+json';
  readonly body: object;
  readonly deadlineMs: number;
};
/** Only for api-writes.ts: it cannot express a PUT (A6). */
export type ApiSend = (request: ApiRequest & { readonly method: 'POST' | 'PATCH' | 'DELETE' }) => Promise<ApiAnswer>;
/** Only for guard/api-writes.ts, which replaces objects of its own. */
export type GuardSend = (request: ApiRequest) => Promise<ApiAnswer>;
/** An endless response, line by line, on a socket of its own. `ended` is called once, also after `close`. */
export type ApiStream = (
  path: string,
  listener: {
    readonly opened: () => void;
    readonly line: (text: string) => void;
    readonly ended: (why: {
      readonly status: number | null;
      readonly detail: string;
      readonly retryAfterMs?: number;
    }) => void;
  },
  silenceMs: number,
) => { readonly close: () => void };
export type Connection = {
  readonly get: ApiGet;
  readonly send: ApiSend;
  readonly stream: ApiStream;
  readonly state: () => ApiState;
  /** Called at each change of the state. */
  readonly onState: (changed: (state: ApiState) => void) => void;
  readonly close: () => void;
};
/** To whoever takes it as a Connection, it sends no PUT. */
export type GuardConnection = Connection & { readonly send: GuardSend };
