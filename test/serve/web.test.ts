import { describe, expect, it, onTestFinished } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { openWeb, type WebFacts } from '../../src/serve/web.ts';
import { clock as running } from '../lab/scene.ts';
import { bodyOf, freePort, get, statusOf } from './a-web.ts';

const NO_PAGE: Pick<WebFacts, 'live' | 'history' | 'rehearse'> = {
  live: async () => null,
  history: () => ({ schema: 1, stepMs: 10_000, atWallMs: [], lowest: {} }),
  rehearse: async () => unread,
};

async function healthOf(facts: Partial<WebFacts>): Promise<{ readonly status: number; readonly body: string }> {
  const port = await freePort();
  // Its time stands, but its timers run: answers wait for their turn.
  const clock = { ...running, monoMs: () => 100_000 };
  const [report, sampled] = [() => null, () => null];
  const web = await openWeb(
    { host: '127.0.0.1', port, hosts: [] },
    { clock, report, sampled, mostApartMs: () => 10_000, ...NO_PAGE, ...facts },
  );
  if (!web.known) throw new Error(web.detail);
  onTestFinished(web.value.close);
  const answer = await get(port, '/healthz');
  return { status: statusOf(answer), body: bodyOf(answer) };
}
const memory = known(1);
const unread = unknown('unreadable', '/proc/meminfo', 'EIO');

describe('/healthz', () => {
  it('is fine while samples come', async () => {
    expect(await healthOf({ sampled: () => ({ atMs: 85_000, memory }) })).toEqual({ status: 200, body: 'ok\n' });
  });
  it('is not before the first sample', async () => {
    expect(await healthOf({})).toEqual({ status: 503, body: 'memory was not sampled yet\n' });
    expect(await healthOf({ sampled: () => ({ atMs: null, memory: unread }) })).toEqual({
      status: 503,
      body: 'memory was not sampled yet: /proc/meminfo: EIO\n',
    });
  });
  it('is not once samples are 5 s late, and says for how long', async () => {
    expect(await healthOf({ sampled: () => ({ atMs: 84_999, memory }) })).toEqual({
      status: 503,
      body: 'memory was last sampled 15 s ago, and is due every 10s at the latest\n',
    });
    expect((await healthOf({ mostApartMs: () => 20_000, sampled: () => ({ atMs: 84_999, memory }) })).status).toBe(200);
  });
  it('is not while the loop runs but cannot read memory, and says why', async () => {
    const { status, body } = await healthOf({ sampled: () => ({ atMs: 50_000, memory: unread }) });
    expect([status, body]).toEqual([503, expect.stringContaining('at the latest: /proc/meminfo: EIO')]);
  });
});
