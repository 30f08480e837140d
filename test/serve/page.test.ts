import { describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import type { HttpAnswer } from '../../src/serve/http.ts';
import { statusReport } from '../../src/serve/status.ts';
import { type PageFacts, pageRoutes } from '../../src/serve/web.ts';
import { aLook, db, job, short, web } from '../core/an-explained-look.ts';
import { aClock } from '../kube/a-clock.ts';
import { aContext, aVerdict } from './a-report.ts';

const PLENTY = { 'memory.available': { available: 2 ** 32, capacity: 2 ** 33 } };

function facts(signals = PLENTY, rest: Partial<PageFacts> = {}): PageFacts {
  const look = aLook([web, job, db], { signals });
  const { observation, config, state, decisions, reasons } = look;
  const met = signals === PLENTY ? {} : { 'memory.available/evictionHard': 9_000 };
  const verdict = aVerdict({ ...state, firstMetMs: met }, { decisions, reasons });
  const status = statusReport({ observation, verdict, config, context: aContext() });
  return {
    clock: createClock(),
    live: async () => ({ status, look }),
    history: () => ({ schema: 1, stepMs: 10_000, atWallMs: [], lowest: {} }),
    rehearse: async () => known('{"schema":1}'),
    ...rest,
  };
}

async function ask(of: PageFacts, path: string): Promise<HttpAnswer> {
  const route = pageRoutes(of).find((one) => one.path === path);
  if (route === undefined) throw new Error(`no ${path}`);
  return await route.answer(new URLSearchParams());
}
const jsonOf = ({ body }: HttpAnswer) => JSON.parse(String(body));

describe('what the page gets', () => {
  it('is the status and the ranking of one look', async () => {
    const { status, explain, nowWallMs } = jsonOf(await ask(facts(short), '/api/live'));
    expect(explain.pods.map(({ name }: { name: string }) => name)).toEqual(['web', 'job', 'db']);
    expect(status.pods.order.map(({ name }: { name: string }) => name)).toEqual(['web', 'job', 'db']);
    expect(explain.source.atWallMs).toBe(status.atWallMs);
    expect(nowWallMs).toBeGreaterThan(1_700_000_000_000);
  });

  it('is one look for all requests within half a second', async () => {
    let looks = 0;
    let nowMs = 1_000;
    const { live } = facts();
    const counted: PageFacts = {
      ...facts(),
      clock: { ...aClock(), monoMs: () => nowMs },
      live: async () => {
        looks += 1;
        return await live();
      },
    };
    const [route] = pageRoutes(counted).filter(({ path }) => path === '/api/live');
    for (let i = 0; i < 100; i++) await route?.answer(new URLSearchParams());
    expect(looks).toBe(1);
    nowMs += 500;
    await route?.answer(new URLSearchParams());
    expect(looks).toBe(2);
  });

  it('says that there is no sample yet', async () => {
    const answer = await ask(facts(PLENTY, { live: async () => null }), '/api/live');
    expect([answer.status, jsonOf(answer)]).toEqual([503, { error: 'no sample was taken yet' }]);
  });

  it('has a rehearsal from the last minute, or the last one and why it is not newer', async () => {
    expect(jsonOf(await ask(facts(), '/api/rehearsal'))).toEqual({ schema: 1, rehearsal: { schema: 1 }, why: null });
    const failing = (why: Reading<string>): PageFacts => facts(PLENTY, { rehearse: async () => why });
    expect(jsonOf(await ask(failing(unknown('timed-out', 'it', 'too slow')), '/api/rehearsal'))).toEqual({
      schema: 1,
      rehearsal: null,
      why: 'it: too slow',
    });
  });

  it('starts no rehearsal while the node is short of memory', async () => {
    let started = 0;
    const rehearse = async (): Promise<Reading<string>> => {
      started += 1;
      return known('{}');
    };
    const { rehearsal, why } = jsonOf(await ask(facts(short, { rehearse }), '/api/rehearsal'));
    expect([rehearsal, why, started]).toEqual([null, 'the node is short of something', 0]);
  });

  it('is an error if the program was not built', async () => {
    const { status, body } = await ask(facts(), '/');
    expect([status, String(body)]).toEqual([
      503,
      expect.stringMatching(/^the page cannot be read: .*: not nodewarden\.js\n$/),
    ]);
  });
});
