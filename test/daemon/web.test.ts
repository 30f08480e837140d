import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import { freePort, get, statusOf } from '../serve/a-web.ts';
import { clock, running, until, write } from './a-daemon.ts';

const listening = (port: number): string => `http: { listen: "127.0.0.1:${port}" }`;
const answers = async (port: number): Promise<boolean> => statusOf(await get(port, '/healthz')) === 200;
async function eventually(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(clock, 20);
}

describe('http of the daemon', () => {
  it('opens, moves and closes with the configuration', async () => {
    const [first, second] = [await freePort(), await freePort()];
    write([listening(first)]);
    await running(async () => {
      await eventually(() => answers(first));
      write([listening(second)]);
      await eventually(() => answers(second));
      expect(await answers(first)).toBe(false);
      write([]);
      await eventually(async () => !(await answers(second)));
      write([listening(first)]);
      await eventually(() => answers(first));
    });
    expect(await answers(first)).toBe(false);
  });

  it('serves what was sampled and counted as metrics, and the counts survive a change that rebuilds the parts', async () => {
    const port = await freePort();
    write([listening(port)]);
    await running(async (report) => {
      await eventually(() => answers(port));
      const looks = async () => Number(/^nodewarden_looks_total (\d+)$/m.exec(await get(port, '/metrics'))?.[1]);
      const before = [await looks(), (await report()).node.sinceWallMs] as const;
      expect(before[0]).toBeGreaterThan(0);
      expect(await get(port, '/metrics')).toMatch(
        /^nodewarden_signal_available\{signal="memory.available",unit="bytes"\} \d+$/m,
      );
      write([listening(port), 'log: { level: warn }']);
      await until(report, (now) => now.node.sinceWallMs !== before[1]);
      await eventually(() => answers(port));
      expect(await looks()).toBeGreaterThan(before[0]);
    });
  });

  it('is back after a change that rebuilds the parts', async () => {
    const port = await freePort();
    write([listening(port)]);
    await running(async (report) => {
      await eventually(() => answers(port));
      const before = await report();
      write([listening(port), 'log: { level: warn }']);
      await until(report, (now) => now.node.sinceWallMs !== before.node.sinceWallMs);
      await eventually(() => answers(port));
    });
  });

  it('says that its port is taken and what to do, continues without, and takes it once it is free', async () => {
    const port = await freePort();
    const other = createServer().listen(port, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    write([listening(port)]);
    await running(async (report) => {
      const { findings } = await until(report, (now) => now.findings.some(({ id }) => id === 'http'));
      expect(findings.find(({ id }) => id === 'http')?.text).toMatch(
        new RegExp(`^http does not listen on 127.0.0.1:${port}: .*EADDRINUSE.*; set http.listen to another port`),
      );
      await new Promise((resolve) => other.close(resolve));
      await eventually(() => answers(port));
      await until(report, (now) => now.findings.every(({ id }) => id !== 'http'));
    });
  });
});
