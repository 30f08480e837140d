import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Block, type Command, commandsOf, matches, split, trimmed } from '../page-blocks.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const TREES = ['docs', 'bench', 'config', 'contrib'];

const PAGES = [
  ...['README.md', 'CONTRIBUTING.md'],
  ...TREES.filter((tree) => existsSync(path.join(ROOT, tree))).flatMap((tree) =>
    readdirSync(path.join(ROOT, tree), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => path.join(tree, name)),
  ),
];

const read = (page: string): string => readFileSync(path.join(ROOT, page), 'utf8');

/** The anchors of a page as GitHub makes them: lower case, no punctuation, a number at the second of the same name. */
function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, title = ''] of split(read(page)).prose.matchAll(/^#{1,6} +(.*?) *$/gm)) {
    const said = title.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const plain = said.replace(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(' ', '-');
    let anchor = plain;
    for (let times = 1; anchors.has(anchor); times += 1) anchor = `${plain}-${times}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Why a link of a page leads nowhere; null: it does not. */
function broken(page: string, link: string): string | null {
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? page : path.join(path.dirname(page), decodeURI(file));
  if (target.startsWith('..')) return `${page}: ${link} leaves the repository`;
  if (!existsSync(path.join(ROOT, target))) return `${page}: ${link} does not exist`;
  if (anchor === undefined || !target.endsWith('.md')) return null;
  return anchorsOf(target).has(anchor) ? null : `${page}: ${link} has no such heading`;
}

describe('the links of the pages', () => {
  const links = PAGES.flatMap((page) =>
    [...split(read(page)).prose.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = '']) => link)
      .filter((link) => !/^[a-z]+:/.test(link))
      .map((link) => ({ page, link })),
  );

  it('lead to a file, and to a heading in it', () => {
    expect(links).toContainEqual({ page: 'README.md', link: 'docs/manifests.md' });
    expect(links.map(({ page, link }) => broken(page, link)).filter((problem) => problem !== null)).toEqual([]);
  });

  it('lead to a file of the release, from a page in it', () => {
    const [, list = ''] = /const SHIPPED = \[(.*?)\n\];/s.exec(read('scripts/dist.mjs')) ?? [];
    const shipped = [...list.matchAll(/'([^']+)'/g)].map(([, item = '']) => item);
    expect(shipped).toContain('docs');
    const isShipped = (file: string): boolean => shipped.some((item) => file === item || file.startsWith(`${item}/`));
    const targets = links
      .filter(({ page }) => isShipped(page))
      .map(({ page, link }) => ({
        page,
        target: path.join(path.dirname(page), link.split('#')[0] || path.basename(page)),
      }));
    expect(targets.filter(({ target }) => !isShipped(target))).toEqual([]);
  });

  it('are all followed: a planted broken one is noticed', () => {
    expect(broken('README.md', 'docs/none.md')).toContain('does not exist');
    expect(broken('README.md', 'docs/manifests.md#none')).toContain('no such heading');
    expect(broken('docs/manifests.md', '#binding-a-pod')).toBeNull();
  });
});

/**
 * A block "console run": each line after "$ " is run by sh, and what it prints must be the lines below it. A line "..."
 * stands for any number of lines. A block "yaml file NAME" is written to NAME first. All blocks of a page run in one
 * directory, in which config/ is what an installation has in /usr/share/nodewarden.
 */
type Step =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | ({ readonly kind: 'run' } & Command);

const SHARE = '/usr/share/nodewarden/';

function stepsOf({ info, lines }: Block): readonly Step[] {
  const here = lines.map((line) => line.replaceAll(SHARE, 'config/'));
  const [, name] = /^yaml file (\S+)$/.exec(info) ?? [];
  if (name !== undefined) return [{ kind: 'file', name, text: `${lines.join('\n')}\n` }];
  if (info !== 'console run') return [];
  return commandsOf(here).map((command) => ({ kind: 'run', ...command }));
}

/** What a command prints on both outputs, and its exit status when that is not 0. */
function sh(command: string, cwd: string, bin: string): readonly string[] {
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}`, NO_COLOR: '1', COLUMNS: '120' };
  const wrapped = `{ ${command}\n} 2>&1; s=$?; [ $s = 0 ] || echo "exit status $s"`;
  const printed = execFileSync('sh', ['-c', wrapped], { cwd, env, encoding: 'utf8', timeout: 60_000 });
  return trimmed(printed.split('\n'));
}

describe('what docs/troubleshooting.md quotes', () => {
  const program = ['src/words', 'src/cli', 'src/config', 'src/host', 'src/daemon', 'src/serve']
    .flatMap((tree) =>
      readdirSync(path.join(ROOT, tree), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => read(path.join(tree, name))),
    )
    .join('\n');
  /** After "It says", and in the first column of a table of what is said. */
  const quoted = read('docs/troubleshooting.md')
    .split('\n')
    .flatMap((line) => {
      if (/\bsays\b/.test(line)) return [...line.replace(/^.*?\bsays\b/, '').matchAll(/`([a-z(][^`]* [^`]*)`/g)];
      return [...line.matchAll(/^\| `([^`]* [^`]*)`/g)];
    })
    .map(([, sentence = '']) => sentence)
    .filter((sentence) => !/^(nodewarden (history|explain)|journalctl) /.test(sentence));

  it('is what the program prints', () => {
    expect(quoted.length).toBeGreaterThan(20);
    expect(quoted.filter((sentence) => !program.includes(sentence))).toEqual([]);
  });
});

describe('the commands of the pages', () => {
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-pages-'));
  afterAll(() => rmSync(scratch, { recursive: true }));
  const bin = path.join(scratch, 'bin');
  mkdirSync(bin);
  const program = `#!/bin/sh\nexec '${process.execPath}' '${path.join(ROOT, 'dist/nodewarden.js')}' "$@"\n`;
  writeFileSync(path.join(bin, 'nodewarden'), program, { mode: 0o755 });

  const runnable = PAGES.map((page) => ({ page, steps: split(read(page)).blocks.flatMap(stepsOf) })).filter(
    ({ steps }) => steps.some(({ kind }) => kind === 'run'),
  );

  it('are found', () => {
    expect(runnable.map(({ page }) => page)).toContain('docs/how-it-decides.md');
  });

  it.each(runnable)('$page prints what it says', ({ page, steps }) => {
    const cwd = path.join(scratch, page.replaceAll('/', '-'));
    mkdirSync(cwd);
    symlinkSync(path.join(ROOT, 'config'), path.join(cwd, 'config'));
    for (const step of steps) {
      if (step.kind === 'file') writeFileSync(path.join(cwd, step.name), step.text);
      else {
        const got = sh(step.command, cwd, bin);
        if (!matches(step.printed, got)) expect(got, step.command).toEqual(step.printed);
      }
    }
  });

  it('are compared line by line: "..." stands for any lines, and nothing else does', () => {
    expect(matches(['a', '...', 'd'], ['a', 'b', 'c', 'd'])).toBe(true);
    expect(matches(['a', '...'], ['a'])).toBe(true);
    expect(matches(['a', '...', 'd'], ['a', 'b'])).toBe(false);
    expect(matches(['a'], ['a', 'b'])).toBe(false);
    expect(matches(['a', 'b'], ['a'])).toBe(false);
  });
});
