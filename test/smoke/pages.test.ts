import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { allCommands } from '../../src/cli/program.ts';
import { createProgram } from '../../src/cli/run-commands.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DIST = path.join(ROOT, 'dist');

type Offered = { readonly line: string; readonly flags: readonly string[]; readonly words: readonly string[] };

function inside(command: Command, parents: readonly string[] = []): readonly (readonly [string, Command])[] {
  const words = [...parents, command.name()];
  return [[words.join(' '), command], ...ours(command).flatMap((sub) => inside(sub, words))];
}

/** commander's own `help` only repeats --help. */
function ours(command: Command): readonly Command[] {
  return command.commands.filter((sub) => sub.name() !== 'help');
}

const whole = (): Command => createProgram(allCommands());
const commands = inside(whole());

/** What each command of the program takes, by commander itself. */
const defined: readonly Offered[] = commands.map(([line, command]) => ({
  line,
  flags: command
    .createHelp()
    .visibleOptions(command)
    .map(({ long }) => long ?? '')
    .sort(),
  words: ours(command)
    .map((sub) => sub.name())
    .sort(),
}));

function has(program: string): boolean {
  return spawnSync('sh', ['-c', 'command -v "$0"', program]).status === 0;
}

/** `ask` gives what a shell offers, one a line, maybe with a tab and a description behind it. */
function offeredBy(ask: (line: string) => string): readonly Offered[] {
  const offers = (line: string): readonly string[] =>
    ask(line)
      .split('\n')
      .map((offer) => offer.split('\t')[0] ?? '')
      .filter((offer) => offer !== '')
      .sort();
  return defined.map(({ line, words }) => ({
    line,
    flags: offers(`${line} --`),
    words: words.length === 0 ? [] : offers(`${line} `),
  }));
}

describe('completion', () => {
  it('in bash offers exactly the options and subcommands of each command', () => {
    const script = `source "$0"; COMP_WORDS=($1); [[ $1 != *' ' ]] || COMP_WORDS+=('')
      COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _nodewarden; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const ask = (line: string): string =>
      execFileSync('bash', ['-c', script, path.join(DIST, 'completion/nodewarden'), line], { encoding: 'utf8' });
    expect(offeredBy(ask)).toEqual(defined);
    expect(ask('nodewarden config show -o ').trim().split('\n')).toEqual(['text', 'json']);
  });
  it.skipIf(!has('fish'))('in fish offers the same [needs fish]', () => {
    const file = path.join(DIST, 'completion/nodewarden.fish');
    const ask = (line: string): string =>
      execFileSync('fish', ['--no-config', '-c', `source $argv[1]; complete -C $argv[2]`, file, line], {
        encoding: 'utf8',
      });
    expect(offeredBy(ask)).toEqual(defined);
  });
  it.skipIf(!has('zsh'))('in zsh completes a command and an option [needs zsh]', () => {
    // zsh completes on a terminal alone, so one shell drives another on a pseudo-terminal.
    const script = `zmodload zsh/zpty; zpty shell zsh -f -i
      zpty -w shell "fpath=(${DIST}/completion \\$fpath); autoload -U compinit; compinit -u -D; PS1=REA''DY"
      zpty -r shell said '*READY*'
      zpty -w -n shell $'nodewarden conf\tche\t--\t'; zpty -r shell said '*Output format*'; print -r -- $said`;
    const said = execFileSync('zsh', ['-f', '-c', script], { encoding: 'utf8', timeout: 60_000 });
    expect(said).toContain('Output format');
  });
});

describe('the man page', () => {
  const text = fs.readFileSync(path.join(DIST, 'man/nodewarden.1'), 'utf8').replaceAll('\\-', '-');

  it('has a section for each command, with its options', () => {
    for (const [line, command] of commands.filter(([, it]) => ours(it).length === 0)) {
      const [, section = ''] = text.split(`.SS ${line.replace('nodewarden ', '')}\n`);
      const own = section.split('\n.S')[0] ?? '';
      expect(own).toContain(command.description());
      for (const { long } of command.options) expect(own).toContain(`\\fB${long}\\fR`);
    }
  });
  it.skipIf(!has('groff')).each(['nodewarden.1', 'nodewarden.5'])(
    '%s is formatted without a warning [needs groff]',
    (name) => {
      const set = spawnSync('groff', ['-man', '-Tutf8', '-ww', '-z', path.join(DIST, 'man', name)], {
        encoding: 'utf8',
      });
      expect(set).toMatchObject({ status: 0, stderr: '' });
    },
  );
  it('of the configuration has every field of the schema', () => {
    const page = fs.readFileSync(path.join(DIST, 'man/nodewarden.5'), 'utf8');
    for (const field of ['evictionHard', 'shutdownGracePeriod', 'nodefs.path', 'reclaimCommands[].signal', 'dryRun']) {
      expect(page).toContain(`\\fB${field}\\fR`);
    }
  });
});

describe('the examples of --help', () => {
  const examples = commands.flatMap(([line, command]) => examplesOf(command).map((example) => ({ line, example })));
  /** Of those that need no agent, with the files that are installed where they lie in the repository. */
  const runnable = examples
    .filter(({ example }) => /^nodewarden (config \S+ \S|config schema|simulate|demo --simulated)\b/.test(example))
    .map(({ example }) =>
      example
        .replace(/\/(etc|usr\/share)\/nodewarden\//g, 'config/')
        .replace('pods.d/web.yaml', 'pods.d/web.service.yaml'),
    )
    .filter((example) =>
      [...example.matchAll(/\S+\.(yaml|gz|json)\b/g)].every(([file]) => fs.existsSync(path.join(ROOT, file))),
    );

  it('exist for each command', () => {
    const without = commands.filter(([line]) => !examples.some((it) => it.line === line)).map(([line]) => line);
    expect(without).toEqual([]);
  });
  it('are understood by the program', async () => {
    for (const { example } of examples) {
      const program = whole();
      for (const [, command] of inside(program)) command.action(() => undefined);
      const words = (example.match(/'[^']*'|"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll(/['"]/g, ''));
      await expect(program.parseAsync(words.slice(1), { from: 'user' }), example).resolves.toBe(program);
    }
  });
  it('include several that need no agent', () => {
    expect(new Set(runnable).size).toBeGreaterThan(4);
  });
  it.each([...new Set(runnable)])('%s', (example) => {
    const args = example.split(/\s+/).slice(1);
    const run = spawnSync(process.execPath, [path.join(DIST, 'nodewarden.js'), ...args], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(run).toMatchObject({ status: 0, stderr: '' });
  });
});

/** Without what goes before it, what its output goes to, and the remark behind it. */
function examplesOf(command: Command): readonly string[] {
  let text = '';
  command.configureOutput({
    writeOut: (more) => {
      text += more;
    },
  });
  command.outputHelp();
  return text.split('\n').flatMap((line) => {
    const [, example] = /^ {2}(?:.* && )?(nodewarden \S.*?)(?: {2,}.*| [|>] .*)?$/.exec(line) ?? [];
    return example === undefined ? [] : [example];
  });
}
