import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { withAuthority } from '../guard/a-guard-api.ts';
import { eventually as untilSo } from '../kube/eventually.ts';
import { get, statusOf, talk } from '../serve/a-web.ts';
import {
  askedWhileHidden,
  DARK,
  DESK,
  eventually,
  focused,
  isBrowserThere,
  type Look,
  openBrowser,
  openPage,
  PHONE,
  picture,
  seriousIn,
  textsOf,
  type Watched,
  WIDE,
} from './a-browser.ts';
import { aFencingOf, type ClusterNode, openPageGuard, type PageGuard } from './a-guard.ts';

const HOSTILE = '<img src=x onerror="window.pwned=1">\u202e\u0007';
const SHOWN = '<img src=x onerror="window.pwned=1">\\u202e\\u0007';
const cluster = (count: number, zones: readonly string[]): readonly ClusterNode[] =>
  Array.from({ length: count }, (_, i) => ({
    name: `w${i + 1}`,
    uid: `uid-${i + 1}`,
    zone: zones[i % zones.length] ?? '',
  }));

let browser: Browser;
let guard: PageGuard;
withAuthority();

async function opened(look: Look = DESK): Promise<Watched> {
  const watched = await openPage(browser, guard.address, look);
  onTestFinished(() => watched.context.close());
  return watched;
}
function withGuard(of: Parameters<typeof openPageGuard>[0]): void {
  beforeAll(async () => {
    guard = await openPageGuard(of);
  });
  afterAll(() => guard?.close());
}

describe.skipIf(!isBrowserThere)('the page of a guard', () => {
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());

  describe('that leads', () => {
    const nodes = cluster(30, ['a', 'b', 'c']);
    const [first, second] = nodes as [ClusterNode, ClusterNode];
    const silent = nodes.slice(0, 18).map(({ name }) => name);
    const open = aFencingOf(
      first,
      200_000,
      [
        ['decided', 0],
        ['off-sent', 1],
        ['proving', 6],
        ['proven', 20],
        ['tainted', 21],
        ['untainting', 70],
        ['on-sent', 96],
        ['booting', 102],
      ],
      {
        order: { verb: 'fence', by: 'ann', because: 'its fan is broken' },
        freed: {
          pods: [
            {
              namespace: 'shop',
              name: 'db-0',
              uid: 'p1',
              isMember: true,
              goneWallMs: Date.now() - 160_000,
              readyWallMs: Date.now() - 150_000,
            },
          ],
          volumes: [],
        },
      },
    );
    const past = aFencingOf(second, 7_200_000, [
      ['decided', 0],
      ['off-sent', 1],
      ['proving', 5],
      ['proven', 19],
      ['tainted', 20],
      ['untainting', 60],
      ['on-sent', 86],
      ['booting', 90],
      ['closed', 190],
    ]);
    withGuard({ nodes, records: [open, past] });
    beforeAll(async () => {
      await untilSo(async () => {
        const { status } = await guard.live();
        expect(status.leader.isLeader).toBe(true);
        expect(status.nodes.healthy).toBe(30);
      });
      guard.silence(silent);
      await untilSo(async () => expect((await guard.live()).status.storms).not.toEqual([]));
    });

    it('shows the same as guard status -o json', async () => {
      const { page, wrongs } = await opened();
      const { status } = await guard.live();
      expect(await textsOf(page, 'h1')).toEqual([status.writer]);
      expect(await textsOf(page, '#tiles strong')).toEqual([
        'This guard',
        expect.stringMatching(/^Armed/),
        expect.stringContaining('30: 12 healthy, 18 '),
        expect.stringContaining('Leases listed'),
      ]);
      expect(await textsOf(page, '#verdict')).toEqual(['Fencing w1']);
      expect((await textsOf(page, '#gates tbody th')).slice(0, 2)).toEqual(['self', 'scope']);
      expect(await textsOf(page, '#nodes tbody tr')).toHaveLength(18);
      expect((await textsOf(page, '#domains tbody th'))[0]).toBe('a storm');
      expect(await page.locator('#findings-count').isVisible()).toBe(false);
      expect(wrongs).toEqual([]);
    });

    it('shows an open fencing on a time axis, with each step, its deadline and what it freed, and those that are over', async () => {
      const { page } = await opened();
      const steps = await textsOf(page, '.fencing tbody tr');
      expect(steps).toHaveLength(9);
      expect(steps[0]).toBe('Silent 2 minutes 5 seconds');
      expect(steps[3]).toMatch(/^The devices are asked for proof proving 14 seconds /);
      expect(steps[8]).toMatch(/^It boots booting for .* now goes on in \d+ minutes? .* at the latest$/);
      const bars = await page.locator('.fencing .took-bar').evaluateAll((all) => all.map((bar) => bar.style.left));
      expect(bars.toSorted((a, b) => Number.parseFloat(a) - Number.parseFloat(b))).toEqual(bars);
      expect(await textsOf(page, '.fencing .freed li')).toEqual([
        expect.stringMatching(/^shop\/db-0: gone \+4.*, its successor Ready \+5.*: 2m5.*s without it$/),
      ]);
      expect(await textsOf(page, '#past .text')).toEqual([
        'w2: fencing, proven off by its devices; silent for 2m5s before; free 3m5s after its last sign of life',
      ]);
    });

    it('can be used with the keyboard alone', async () => {
      const { page } = await opened();
      await page.keyboard.press('Tab');
      expect(await focused(page)).toBe('Skip to the state of the cluster');
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('main');
      for (const place of ['Last fencings', 'Nodes', 'Findings', 'Domains', 'Gates']) {
        await page.keyboard.press('Shift+Tab');
        expect(await focused(page)).toBe(place);
      }
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('gates');
      expect(await page.evaluate("document.querySelector('#gates-h').getBoundingClientRect().top < innerHeight")).toBe(
        true,
      );
    });

    it.each([
      ['light', DESK],
      ['dark', DARK],
      ['wide', WIDE],
      ['phone', PHONE],
    ])('has no serious finding of axe and nothing outside the screen, %s', async (name, look) => {
      const { page, wrongs } = await opened(look);
      expect(await seriousIn(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width);
      await picture(page, `guard-storm-${name}`);
      expect(wrongs).toEqual([]);
    });

    it('is read-only, refuses a foreign name, and may load and run nothing but its own', async () => {
      const port = Number(new URL(guard.address).port);
      const page = await get(port, '/');
      expect(statusOf(page)).toBe(200);
      expect(page).toMatch(
        /\r\nContent-Security-Policy: default-src 'none'; script-src 'sha256-[^']+'; .*frame-ancestors 'none'\r\n/,
      );
      expect(statusOf(await get(port, '/', 'attacker.example'))).toBe(421);
      expect(statusOf(await get(port, '/api/live', 'attacker.example'))).toBe(421);
      expect(statusOf(await talk(port, 'POST /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n'))).toBe(405);
    });

    it('sends no request while it is hidden', async () => {
      const { page } = await opened();
      expect(await askedWhileHidden(page)).toBe(0);
    });

    it('says which gates hold the dead', async () => {
      await untilSo(async () => expect((await guard.live()).status.nodes.dead).toBe(18));
      const { page } = await opened();
      const worth = "[...document.querySelectorAll('#gates tr')].find((row) => row.innerText.startsWith('worth'))";
      await eventually(
        'it is said',
        page,
        `/holds[^]*17 dead nodes: there is nothing to free/.test(${worth}.innerText)`,
      );
      await eventually(
        'it is said of each',
        page,
        `document.querySelector('#nodes').innerText.includes('worth: there is nothing to free')`,
      );
      await picture(page, 'guard-page-light', 1_330);
      await picture((await opened(DARK)).page, 'guard-page-dark', 1_330);
      await picture((await opened(PHONE)).page, 'guard-page-phone', 1_600);
    });

    it('says since when the guard does not answer, and recovers when it is back', async () => {
      const { page } = await opened();
      await guard.kill();
      await eventually(
        'it is said',
        page,
        `/^Connection lost since \\d\\d:\\d\\d:\\d\\d CET\\. Everything below is as of .* the guard cannot be reached/.test(document.querySelector('#lost').innerText)`,
      );
      expect(await page.locator('body.stale').count()).toBe(1);
      guard.start();
      await eventually('it goes on', page, `document.querySelector('#lost').hidden`);
      expect(await page.locator('body.stale').count()).toBe(0);
    });
  });

  describe('on standby', () => {
    const nodes = [...cluster(4, ['a', 'b']), { name: HOSTILE, uid: 'uid-hostile', zone: `b ${HOSTILE}` }];
    const [first] = nodes as [ClusterNode];
    const open = aFencingOf(
      first,
      60_000,
      [
        ['decided', 0],
        ['off-sent', 1],
        ['proving', 6],
      ],
      { order: { verb: 'fence', by: 'ann', because: `its fan ${HOSTILE}` } },
    );
    withGuard({ nodes, leader: 'guard-elsewhere', records: [open] });

    it('says so, shows what it sees, and nothing that only the guard that leads knows', async () => {
      await untilSo(async () => expect((await guard.live()).status.nodes.healthy).toBe(5));
      guard.silence(['w1', 'w2', HOSTILE]);
      await untilSo(async () => expect((await guard.live()).status.nodes.healthy).toBe(2));
      const { page, wrongs } = await opened(DARK);
      await picture(page, 'guard-standby-dark');
      expect(await textsOf(page, '#verdict')).toEqual(['Standby: guard-elsewhere leads']);
      expect((await textsOf(page, '#tiles dd'))[1]).toBe('Armed but it acts only while it leads');
      expect(await textsOf(page, '#gates tbody tr')).toEqual(['self closed This guard does not lead']);
      expect((await textsOf(page, '#nodes tbody tr')).slice(1)).toEqual([
        expect.stringMatching(/^w1 a (suspect|dead) silent for .* The devices are asked for proof$/),
        expect.stringMatching(/^w2 b (suspect|dead) silent for .* known to the guard that leads$/),
      ]);
      const [steps] = (await textsOf(page, '.fencing tbody tr')).slice(-1);
      expect(steps).toContain('The devices are asked for proof');
      expect(steps).not.toContain('goes on');
      expect(await seriousIn(page)).toEqual([]);
      expect(wrongs).toEqual([]);
    });

    it('shows names that others chose as text, with hiding or reordering characters made visible', async () => {
      const { page, wrongs } = await opened();
      expect(await textsOf(page, '#nodes .name')).toContain(SHOWN);
      expect(await textsOf(page, '#domains .name')).toContain(`b ${SHOWN}`);
      expect((await textsOf(page, '.fencing .note')).join()).toContain(`ordered by ann: its fan ${SHOWN}`);
      expect(await page.evaluate('window.pwned')).toBeUndefined();
      expect(wrongs).toEqual([]);
    });
  });

  describe('of 5,000 nodes in a dry run', () => {
    const nodes = cluster(5_000, ['a', 'b', 'c', 'd', 'e']);
    withGuard({ nodes, dryRun: true });

    it('counts all nodes of a storm, lists some, and says how many it leaves out', async () => {
      await untilSo(async () => expect((await guard.live()).status.nodes.healthy).toBe(5_000));
      guard.silence(nodes.slice(0, 3_000).map(({ name }) => name));
      await untilSo(async () => expect((await guard.live()).status.nodes.healthy).toBe(2_000));
      await untilSo(async () => expect((await guard.live()).status.storms).not.toEqual([]));
      const { page, wrongs } = await opened(PHONE);
      expect(await page.locator('#dry').isVisible()).toBe(true);
      expect(await textsOf(page, '#verdict')).toEqual(['Storm: 3000 nodes silent, and held']);
      expect(await textsOf(page, '#nodes tbody tr')).toHaveLength(50);
      expect((await textsOf(page, '#nodes .note'))[0]).toMatch(/^and 2950 more; /);
      expect((await textsOf(page, '#domains tbody tr'))[0]).toMatch(/^a storm 1000: 400 healthy, 600 /);
      expect(await seriousIn(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(PHONE.width);
      const answer = await (await fetch(`${guard.address}api/live`)).text();
      expect(answer.length).toBeLessThan(100_000);
      await picture(page, 'guard-5000-phone');
      expect(wrongs).toEqual([]);
    });
  });
});
