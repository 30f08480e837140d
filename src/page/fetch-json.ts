/** The result of a request: its answer, or why there is none, in words. */
export type Fetched<T> =
  | { readonly ok: true; readonly answer: T }
  | { readonly ok: false; readonly why: string; readonly isReached: boolean };

/** Fetches one JSON document of who serves this page. Never rejects. */
export async function fetchJson<T>(path: string, timeoutMs: number, who: string): Promise<Fetched<T>> {
  try {
    const response = await fetch(path, { signal: AbortSignal.timeout(timeoutMs), cache: 'no-store' });
    const body: unknown = await response.json();
    // The page and who serves it are one program; only a page from before an upgrade sees another schema.
    if (response.ok && isOurs(body)) return { ok: true, answer: body as T };
    return { ok: false, why: errorIn(body, who), isReached: true };
  } catch (cause) {
    const isLate = cause instanceof DOMException && cause.name === 'TimeoutError';
    return {
      ok: false,
      why: isLate ? `no answer within ${timeoutMs / 1_000} seconds` : `the ${who} cannot be reached`,
      isReached: false,
    };
  }
}

const isOurs = (body: unknown): boolean =>
  typeof body === 'object' && body !== null && 'schema' in body && body.schema === 1;

function errorIn(body: unknown, who: string): string {
  if (typeof body === 'object' && body !== null && 'error' in body) return String(body.error);
  return `the ${who} runs another version: reload this page`;
}
