import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { allCommands } from '../../src/cli/program.ts';
import { createProgram } from '../../src/cli/run-commands.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const MOST_COLUMNS = 80;

type Described = { readonly name: string; readonly text: string };

/** Words that say something else by now, or say it less plainly. */
const OLD_PHRASES = [
  'resists its end',
  'no longer so:',
  'who is left cannot be told',
  'it is asked again as soon as',
  'is let go:',
  'look at: ',
  'may be left away',
  'plays what has not happened yet',
  'the main job within a minute',
  'something that you should know until',
  'equals: the younger',
  'no pod goes before it has ended',
  'mode kubelet is not there yet',
  'is looked for for',
  'tried again for ever',
  'because of a mistake in itself',
  'takes along ${',
  'first to go',
  'no signal of logind',
  "'for want of time'",
  'wanted in all',
  'wanted of logind',
  'may take for ever',
  'ended by the cancellation',
  'keep on disk is not measured',
  'rank nobody',
  'is told after ',
  'asking again',
  'ask again in a moment',
  'descendants than are looked at',
  '* put it before',
  'an amount has no such unit',
  'names nothing real',
  'as far as counted',
  'is waited for any longer',
  'written twice in this mapping',
  'the most seconds a pod gets',
  'the schema has told',
  'told by the schema',
  'Plan against fact',
  'nobody is told',
  'nobody to evict',
  'starts it by itself',
  'who would go first',
  'Whom it never chooses',
  'makes another one',
  'left on the node: no new pods',
  'not all that could go',
  'its answer is not known',
  'asks no disruption budget',
  'cannot ask PodDisruptionBudgets',
  'What there is of the signal',
] as const;

function inside(command: Command, parents = ''): readonly { readonly name: string; readonly command: Command }[] {
  const name = `${parents}${command.name()}`;
  return [{ name, command }, ...command.commands.flatMap((sub) => inside(sub, `${name} `))];
}
const commands = inside(createProgram(allCommands()));

const ofCommands: readonly Described[] = commands.map(({ name, command }) => ({ name, text: command.description() }));
const ofRest: readonly Described[] = commands.flatMap(({ name, command }) => [
  ...command.options.map(({ flags, description }) => ({ name: `${name} ${flags}`, text: description })),
  ...command.registeredArguments.map((argument) => ({
    name: `${name} ${argument.name()}`,
    text: argument.description,
  })),
]);

const named = (all: readonly Described[]): readonly string[] => all.map(({ name, text }) => `${name}: ${text}`);

describe('the descriptions of commands, options and arguments', () => {
  const all = [...ofCommands, ...ofRest];

  it('are all checked', () => {
    expect(ofCommands.map(({ name }) => name)).toContain('nodewarden rehearse shutdown');
    expect(ofRest.map(({ name }) => name)).toContain('nodewarden capture -d, --duration <time>');
    expect(named(all.filter(({ text }) => text === ''))).toEqual([]);
  });

  it(`are one line of at most ${MOST_COLUMNS} columns`, () => {
    expect(named(all.filter(({ text }) => text.includes('\n') || text.length > MOST_COLUMNS))).toEqual([]);
  });

  it('do not end with a full stop', () => {
    expect(named(all.filter(({ text }) => text.endsWith('.')))).toEqual([]);
  });

  it('begin with a capital letter', () => {
    expect(named(all.filter(({ text }) => !/^[A-Z]/.test(text)))).toEqual([]);
  });

  it('say of options that must be given that they are required, and of no others', () => {
    const options = commands.flatMap(({ name, command }) => command.options.map((option) => ({ name, option })));
    const wrong = options.filter(({ option }) => option.mandatory !== option.description.endsWith(' (required)'));
    expect(options.filter(({ option }) => option.mandatory)).not.toEqual([]);
    expect(wrong.map(({ name, option }) => `${name} ${option.flags}: ${option.description}`)).toEqual([]);
  });

  it('begin with an imperative for commands', () => {
    expect(named(ofCommands.filter(({ text }) => !/^[A-Z][a-z]*[a-rt-z] /.test(text)))).toEqual([]);
  });
});

describe('the words of the program and its pages', () => {
  const files = ['src', 'docs', 'config', 'README.md'].flatMap((place) =>
    statSync(path.join(ROOT, place)).isFile()
      ? [place]
      : readdirSync(path.join(ROOT, place), { recursive: true, encoding: 'utf8' }).map((name) =>
          path.join(place, name),
        ),
  );
  const texts = files
    .filter((name) => /\.(ts|md|yaml|json)$/.test(name))
    .map((name) => ({ name, text: readFileSync(path.join(ROOT, name), 'utf8').replace(/\s+/g, ' ') }));

  it('are all checked', () => {
    const names = texts.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining([
        'src/main.ts',
        'docs/operate.md',
        'config/schema.json',
        'config/config.yaml',
        'README.md',
      ]),
    );
  });

  it('of findings are only in src/words', () => {
    // A literal with an id and a text, other than one that is read back.
    const literal = /\{ id(: [^{},;]+)?, text\b(?! \}\) =>)/;
    const raising = texts.filter(({ name, text }) => /^src\/.*\.ts$/.test(name) && /\bFindings?\b/.test(text));
    const written = raising.filter(({ text }) => literal.test(text)).map(({ name }) => name);
    expect(written).not.toEqual([]);
    expect(written.filter((name) => !name.startsWith('src/words/'))).toEqual([]);
  });

  it.each(OLD_PHRASES)('do not contain "%s"', (phrase) => {
    const found = texts.filter(({ text }) => text.includes(phrase)).map(({ name }) => `${name}: ${phrase}`);
    expect(found).toEqual([]);
  });
});
