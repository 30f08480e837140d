import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { sleep } from '../../src/host/clock.ts';
import { clock } from '../lab/scene.ts';

/** Debian's; the tests fetch no browser. */
const CHROMIUM = '/usr/bin/chromium';
export const isBrowserThere = existsSync(CHROMIUM);

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Where pictures for the documentation go; without it none is taken. */
const PICTURES = process.env['NODEWARDEN_PICTURES'];

/** Nothing of its own: no update, no connection but those of the page. */
const ALONE = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export const openBrowser = (): Promise<Browser> => chromium.launch({ executablePath: CHROMIUM, args: ALONE });

export type Look = { readonly width: number; readonly height: number; readonly colour: 'light' | 'dark' };
export const DESK: Look = { width: 1280, height: 900, colour: 'light' };
export const DARK: Look = { ...DESK, colour: 'dark' };
export const PHONE: Look = { width: 360, height: 740, colour: 'light' };
export const WIDE: Look = { width: 1920, height: 1080, colour: 'dark' };

/** A page with what it should never do: requests elsewhere, refusals by its policy, errors. */
export type Watched = { readonly page: Page; readonly wrongs: string[]; readonly context: BrowserContext };

export async function openPage(browser: Browser, address: string, look: Look = DESK): Promise<Watched> {
  const { width, height, colour } = look;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: colour,
    timezoneId: 'Europe/Berlin',
  });
  const page = await context.newPage();
  const wrongs: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith('data:'))
      wrongs.push(`asked for ${request.url()}`);
  });
  page.on('console', (message) => {
    // Chromium ends its requests when an interface of the machine comes or goes; the page asks again.
    if (message.text().includes('ERR_NETWORK_CHANGED')) return;
    if (message.type() === 'error' || message.type() === 'warning') wrongs.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => wrongs.push(`thrown: ${error.message}`));
  await page.addInitScript(
    `document.addEventListener('securitypolicyviolation', (event) => console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI))`,
  );
  await page.goto(address);
  await page.locator('#main[aria-busy="false"]').waitFor();
  return { page, wrongs, context };
}

/** What is shown of the elements, each as one line. */
export const textsOf = async (page: Page, selector: string): Promise<readonly string[]> =>
  (await page.locator(selector).allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim());

/** The id of the element that has the focus, or its text. */
export const focused = (page: Page): Promise<string> =>
  page.evaluate('document.activeElement.id || document.activeElement.innerText.trim()');

/** How often the page asks for something within 5 s, hidden. */
export async function askedWhileHidden(page: Page): Promise<number> {
  await page.evaluate(
    `Object.defineProperty(document, 'hidden', { value: true }); document.dispatchEvent(new Event('visibilitychange'))`,
  );
  // What had been asked for before may still be on its way.
  await sleep(clock, 1_000);
  let asked = 0;
  page.on('request', () => {
    asked += 1;
  });
  await sleep(clock, 5_000);
  return asked;
}

/** Waits for a fact; the deadline only ends a hung run. In the page, whose policy forbids what playwright would wait with. */
export async function eventually(what: string, page: Page, holds: string): Promise<void> {
  const endMs = clock.monoMs() + 120_000;
  while (!(await page.evaluate(holds))) {
    if (clock.monoMs() > endMs) throw new Error(`never so: ${what}`);
    await sleep(clock, 50);
  }
}

type Violation = {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
};

export async function seriousIn(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  const violations: readonly Violation[] = await page.evaluate(
    'axe.run(document).then(({ violations }) => violations)',
  );
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
}

/** `height`: no more of it than that. */
export async function picture(page: Page, name: string, height: number | null = null): Promise<void> {
  if (PICTURES === undefined) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.evaluate('scrollTo(0, 0)');
  const width = page.viewportSize()?.width ?? 0;
  const clip = height === null ? {} : { clip: { x: 0, y: 0, width, height } };
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true, ...clip });
}
