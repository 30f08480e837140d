import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { LiveAnswer } from '../../src/serve/live.ts';
import { isBoundedCgroupPossible } from '../demo/possible.ts';
import { freePort } from '../serve/a-web.ts';
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
import { configure, openPageNode, type PageNode } from './a-node.ts';

const MIB = 2 ** 20;
/** A name that a file may have, and a manifest must not. */
const HOSTILE_FILE = '<img src=x onerror="window.pwned=1">\u202e.yaml';
const HOSTILE = '<img src=x onerror="window.pwned=1">\u202e\u0007\n<script>window.pwned=1</script>';

let node: PageNode;
let browser: Browser;

async function opened(look: Look = DESK): Promise<Watched> {
  const watched = await openPage(browser, node.address, look);
  onTestFinished(() => watched.context.close());
  return watched;
}

/** In this order: the node is short of memory in the end, and the agent is killed. */
describe.skipIf(!isBoundedCgroupPossible || !isBrowserThere)('the page', () => {
  beforeAll(async () => {
    node = await openPageNode(await freePort());
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await node?.close();
  });

  it('shows the same as status -o json', async () => {
    const { page, wrongs } = await opened();
    const status = await node.scene.status();
    const memory = status.signals.find(({ signal }) => signal === 'memory.available');
    expect(await textsOf(page, 'h1')).toEqual([status.node.name]);
    expect((await textsOf(page, '#facts')).join()).toContain(`nodewarden ${status.node.version} mode standalone`);
    const shown = status.signals.filter(
      ({ unknown, aliasOf }) => aliasOf === null && unknown?.why !== 'not-applicable',
    );
    expect(await textsOf(page, '.card h3')).toEqual(shown.map(({ signal }) => signal));
    const [, availableMiB] =
      /^([0-9.]+) MiB available of 512 MiB$/.exec((await textsOf(page, '.amount'))[0] ?? '') ?? [];
    expect(Math.abs(Number(availableMiB) - (memory?.available ?? 0) / MIB)).toBeLessThan(20);
    expect((await textsOf(page, '.card:first-child .limit')).slice(0, 2)).toEqual([
      'hard below 80 MiB',
      'soft below 120 MiB, for 10 minutes',
    ]);
    expect(status.pods.known && status.pods.order.map(({ name }) => `lab/${name}`)).toEqual(
      await textsOf(page, '.pods .name'),
    );
    expect((await textsOf(page, '.pods tbody tr'))[0]).toMatch(
      /^1 lab\/batch ?first BestEffort [0-9.]+ MiB, requests none 0 Before 2: /,
    );
    expect(await textsOf(page, '#tiles strong')).toEqual([
      'Armed',
      'Not armed',
      'None',
      expect.stringContaining('memory'),
    ]);
    expect(await textsOf(page, '#decisions .empty strong')).toEqual([
      'No decision since the agent started or reloaded.',
    ]);
    expect(wrongs).toEqual([]);
  });

  it('shows the shutdown from rehearse on a time axis', async () => {
    const { page, wrongs } = await opened();
    await page.locator('.plan').waitFor();
    expect(await textsOf(page, '.plan .phase')).toEqual([
      expect.stringMatching(/^Phase 1 priorities below 2000000000, 30 seconds 0 seconds to 25 seconds at most$/),
      expect.stringMatching(/^Phase 2 priority 2000000000 and above, 10 seconds 25 seconds to 35 seconds at most$/),
    ]);
    expect(await textsOf(page, '.plan tr:not(.phase) .name')).toEqual([
      'lab/batch',
      'lab/database',
      'lab/web',
      'lab/worker',
      'lab/ingress',
    ]);
    const places = await page.locator('.gets-bar').evaluateAll((bars) => bars.map((bar) => bar.getAttribute('style')));
    expect(places[4]).toMatch(/left: 71\.4\d*%; width: 28\.5\d*%/);
    expect(wrongs).toEqual([]);
  });

  it('can be used with the keyboard alone', async () => {
    const { page } = await opened();
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Skip to the state of the node');
    await page.keyboard.press('Enter');
    expect(await focused(page)).toBe('main');
    await page.keyboard.press('Shift+Tab');
    expect(await focused(page)).toBe('Shutdown');
    for (const place of ['Findings', 'Decisions']) {
      await page.keyboard.press('Shift+Tab');
      expect(await focused(page)).toMatch(new RegExp(`^${place}`));
    }
    await page.keyboard.press('Enter');
    expect(await focused(page)).toBe('decisions');
    expect(
      await page.evaluate("document.querySelector('#decisions-h').getBoundingClientRect().top < innerHeight"),
    ).toBe(true);
  });

  it.each([
    ['light', DESK],
    ['dark', WIDE],
    ['on a phone', PHONE],
  ])('has no serious finding of axe and nothing outside the screen, %s', async (_, look) => {
    const { page, wrongs } = await opened(look);
    await page.locator('.plan').waitFor();
    expect(await seriousIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width);
    expect(wrongs).toEqual([]);
  });

  it('shows names that others chose as text, with hiding or reordering characters made visible', async () => {
    const { page, wrongs } = await opened();
    const manifest = join(node.scene.agent.places.manifests, HOSTILE_FILE);
    writeFileSync(manifest, 'kind: Pod\n');
    onTestFinished(() => rmSync(manifest));
    // The agent refuses such names of pods in manifests, but the page does not rely on it.
    await page.route('**/api/live', async (route) => {
      const answer = (await (await route.fetch()).json()) as LiveAnswer;
      const text = JSON.stringify(answer).replaceAll('"batch"', JSON.stringify(HOSTILE));
      await route.fulfill({ body: text, contentType: 'application/json' });
    });
    await eventually('the name is there', page, `document.querySelector('.pods').innerText.includes('onerror')`);
    expect((await textsOf(page, '.pods .name'))[0]).toBe(
      'lab/<img src=x onerror="window.pwned=1">\\u202e\\u0007\\u000a<script>window.pwned=1</script>',
    );
    await eventually(
      'the finding is there',
      page,
      `/a manifest must not contain/.test(document.querySelector('#findings').innerText)`,
    );
    const findings = (await textsOf(page, '.findings.finding li')).join('\n');
    expect(findings).toContain(HOSTILE_FILE.replace('\u202e', '\\u202e'));
    expect(await page.evaluate('window.pwned')).toBeUndefined();
    expect(await page.locator('main img, main script, main b:not(.limit b)').count()).toBe(0);
    expect(wrongs).toEqual([]);
  });

  it('says what is only a lower bound, and why nobody is chosen', async () => {
    const { page } = await opened();
    await page.route('**/api/live', async (route) => {
      const answer = (await (await route.fetch()).json()) as LiveAnswer;
      const pods = answer.explain.pods.map((pod) => ({
        ...pod,
        usage: known(5 * MIB),
        values: pod.values.map((value) => (value.by === 'name' ? value : { ...value, isAtLeast: true })),
      }));
      const explain = { ...answer.explain, pods, victim: null, whatIf: null, unproven: 'batch may use more' };
      await route.fulfill({ json: { ...answer, explain } });
    });
    await eventually(
      'they are there',
      page,
      `/Batch may use more\\./.test(document.querySelector('#pods-body').innerText)`,
    );
    expect((await textsOf(page, '.pods .uses'))[0]).toContain('at least 5 MiB');
  });

  it('shows an eviction while it happens, announces it to a screen reader, and shows its outcome', async () => {
    const { page, wrongs } = await opened();
    await page.locator('.plan').waitFor();
    const desk = await opened(DARK);
    const phone = await opened(PHONE);
    for (const each of [desk, phone]) await each.page.locator('.plan').waitFor();
    const leak = node.scene.play('web', 'grow 300 3').catch(() => undefined);
    await eventually(
      'it is foreseen',
      page,
      `/reaches its hard threshold in|below a threshold/i.test(document.querySelector('#verdict').innerText + document.querySelector('.card .ahead').innerText)`,
    );
    await picture(phone.page, 'page-phone');
    await eventually(
      'lab/web is evicted',
      page,
      `/evict lab\\/web/.test(document.querySelector('#decisions').innerText)`,
    );
    await eventually('it is said', page, `/evict lab\\/web/.test(document.querySelector('#said').innerText)`);
    await eventually(
      'its end is shown',
      page,
      `/ended by sigkill/.test(document.querySelector('.eviction .outcome')?.innerText ?? '')`,
    );
    await eventually(
      'it is gone',
      page,
      `![...document.querySelectorAll('.pods .name')].some((name) => name.innerText === 'lab/web')`,
    );
    await leak;
    const { decisions } = await node.scene.status();
    expect(await textsOf(page, '.eviction .text')).toEqual(
      decisions.filter(({ kind }) => kind === 'evict').map(({ text }) => text),
    );
    await eventually(
      'the step after it is there',
      page,
      `document.querySelector('#verdict').innerText === 'No pressure'`,
    );
    await picture(page, 'page-light');
    await picture(desk.page, 'page-dark');
    expect([...wrongs, ...desk.wrongs, ...phone.wrongs]).toEqual([]);
  });

  it('sends no request while it is hidden', async () => {
    const { page } = await opened();
    expect(await askedWhileHidden(page)).toBe(0);
  });

  it('says that it is a dry run', async () => {
    const { page } = await opened();
    expect(await page.locator('#dry').isVisible()).toBe(false);
    configure(node.scene, 'dryRun: true');
    node.scene.agent.reload();
    await eventually('it is said', page, `!document.querySelector('#dry').hidden`);
    expect((await textsOf(page, '#tiles strong'))[0]).toBe('Dry run');
  });

  it('says since when the connection is lost, and recovers when it is back', async () => {
    const { page } = await opened();
    await node.scene.agent.crash();
    await eventually(
      'it is said',
      page,
      `/^Connection lost since \\d\\d:\\d\\d:\\d\\d CET\\. Everything below is as of/.test(document.querySelector('#lost').innerText)`,
    );
    expect(await page.locator('body.stale').count()).toBe(1);
    expect(await textsOf(page, '.card h3')).toContain('memory.available');
    await node.scene.agent.start();
    await eventually(
      'it goes on',
      page,
      `document.querySelector('#lost').hidden && /^Live/.test(document.querySelector('#link').innerText)`,
    );
    expect(await page.locator('body.stale').count()).toBe(0);
  });
});
