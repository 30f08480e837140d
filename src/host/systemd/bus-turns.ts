/**
 * The maximum number of pending calls to one name. The bus refuses the 129th of a connection (max_replies_per_connection).
 * Two names share it, logind and systemd, and neither may lock out the other.
 */
const IN_FLIGHT = 56;

/**
 * Call `settled` when the answer has arrived, even if nothing waits for it any more: until then the bus counts the
 * call.
 */
type Send = (settled: () => void) => void;
export type BusTurns = {
  /**
   * Sends at once or when its turn comes. All other calls wait until an urgent one is answered or given up, because systemd
   * starts its queued jobs only once it has answered every call. The returned function gives up the turn.
   */
  readonly ask: (destination: string, isUrgent: boolean, send: Send) => () => void;
};
/** `urgentNow`: urgent calls that wait for a turn or for the answer. */
type Line = { inFlight: number; urgent: Set<Send>; others: Set<Send>; urgentNow: Set<Send> };

/** The calls of one connection, in turns. */
export function createBusTurns(): BusTurns {
  const lines = new Map<string, Line>();

  function lineOf(destination: string): Line {
    const line = lines.get(destination) ?? { inFlight: 0, urgent: new Set(), others: new Set(), urgentNow: new Set() };
    lines.set(destination, line);
    return line;
  }

  function sendNext(line: Line): void {
    while (line.inFlight < IN_FLIGHT) {
      const from = line.urgentNow.size > 0 ? line.urgent : line.others;
      const [send] = from;
      if (send === undefined) return;
      from.delete(send);
      line.inFlight += 1;
      let isSettled = false;
      send(() => {
        if (isSettled) return;
        isSettled = true;
        line.inFlight -= 1;
        line.urgentNow.delete(send);
        sendNext(line);
      });
    }
  }

  return {
    ask: (destination, isUrgent, send) => {
      const line = lineOf(destination);
      const waiting = isUrgent ? line.urgent : line.others;
      waiting.add(send);
      if (isUrgent) line.urgentNow.add(send);
      sendNext(line);
      return () => {
        waiting.delete(send);
        if (line.urgentNow.delete(send)) sendNext(line);
      };
    },
  };
}
