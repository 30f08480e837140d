import { describe, expect, it } from 'vitest';
import { known } from '../src/core/reading.ts';
import { createClock } from '../src/host/clock.ts';
import { createInbox } from '../src/loop.ts';

const clock = createClock();
const outcome = { of: 'boot-1', atMs: 0, kind: 'reclaimed', freed: known(1) } as const;

describe('the inbox', () => {
  it('ends a wait at once when something arrives, and hands it over once', async () => {
    const inbox = createInbox(clock);
    const startedMs = clock.monoMs();
    const waiting = inbox.wait(60_000);
    inbox.put(outcome);
    await waiting;
    expect(clock.monoMs() - startedMs).toBeLessThan(30_000);
    expect(inbox.drain()).toEqual({ outcomes: [outcome], events: [] });
    expect(inbox.drain()).toEqual({ outcomes: [], events: [] });
  });

  it('does not lose what arrives while nobody waits', async () => {
    const inbox = createInbox(clock);
    inbox.put({ kind: 'preparing' });
    await inbox.wait(60_000);
    expect(inbox.drain().events).toEqual([{ kind: 'preparing' }]);
  });

  it('lets the event loop turn even when it is woken again and again', async () => {
    const inbox = createInbox(clock);
    let turned = false;
    setImmediate(() => {
      turned = true;
    });
    for (let look = 0; look < 3; look++) {
      inbox.wake();
      await inbox.wait(60_000);
    }
    expect(turned).toBe(true);
  });
});
