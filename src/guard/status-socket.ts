import { ensureDirectory } from '../host/files.ts';
import { groupIdOf } from '../host/own/socket-file.ts';
import type { Clock, Findings } from '../ports.ts';
import { type OpenSocket, serveSocket } from '../serve/socket.ts';
import { NO_SOCKET, noSocket } from '../words/finding-guard.ts';
import type { ExplainReport, GuardReport, NodesUnknown } from './shown.ts';

const GROUP = 'nodewarden';
/** How often it is made sure that the socket is still there. */
const CHECK_MS = 10_000;

/** Answers `guard status`, `guard explain` and `guard capture` on its socket; if that is lost, it is opened again. */
export async function openStatusSocket(needs: {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly path: string;
  /** Null: there was no look yet. */
  readonly answer: () => GuardReport | null;
  /** Null: there is no such node. */
  readonly explain: (node: string) => ExplainReport | NodesUnknown | null;
  /** JSON: of so much of the last hour; null: what is so now. */
  readonly observe: (forMs: number | null) => string;
}): Promise<{ readonly close: () => Promise<void> }> {
  const { clock, findings, path, answer, explain } = needs;
  const observe = async (forMs: number | null): Promise<string> => needs.observe(forMs);
  let socket: OpenSocket | null = null;
  let cancel = (): void => undefined;
  let isClosed = false;

  async function open(): Promise<void> {
    ensureDirectory(path.slice(0, Math.max(1, path.lastIndexOf('/'))), 0o750);
    const served = await serveSocket({ clock, path, groupId: groupIdOf(GROUP), answer, explain, observe });
    socket = served.known ? served.value : null;
    if (served.known) findings.clear(NO_SOCKET);
    else findings.raise(noSocket(served.where, served.detail));
  }
  async function check(): Promise<void> {
    if (socket?.isThere() !== true) {
      const lost = socket;
      await open();
      await lost?.close();
    }
    if (!isClosed) cancel = clock.after(CHECK_MS, () => void check());
  }
  await check();
  return {
    close: async () => {
      isClosed = true;
      cancel();
      await socket?.close();
    },
  };
}
