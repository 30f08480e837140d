// What a commander program offers, as data: the source of the man page and of the completions.

/** Arguments of this name are paths. */
const PATHS = ['file', 'where'];

/**
 * Every command, the program itself first: `words` lead to it (none for the program), `subcommands` are the next words,
 * `after` is what --help adds below the options. Help commands are left out: they only repeat --help.
 */
export function commandsOf(program, words = []) {
  const help = program.createHelp();
  const subcommands = program.commands.filter((command) => command.name() !== 'help');
  const own = {
    words,
    usage: help.commandUsage(program),
    description: program.description(),
    options: help.visibleOptions(program).map((option) => ({
      flags: [option.short, option.long].filter((flag) => flag !== undefined),
      value: valueNamed(option.flags.match(/[<[](.*)[>\]]/)?.[1], option.argChoices),
      description: option.description,
      full: help.optionDescription(option),
    })),
    args: program.registeredArguments.map((argument) => ({
      ...valueNamed(argument.name(), argument.argChoices),
      isMany: argument.variadic,
      full: help.argumentDescription(argument),
    })),
    subcommands: subcommands.map((command) => ({ name: command.name(), description: command.description() })),
    after: afterOf(program),
  };
  return [own, ...subcommands.flatMap((command) => commandsOf(command, [...words, command.name()]))];
}

/** Null for an option without a value. */
function valueNamed(name, choices) {
  if (name === undefined) return null;
  return { name, isPath: PATHS.includes(name), choices: choices ?? [] };
}

function afterOf(command) {
  const { writeOut, writeErr } = command.configureOutput();
  let text = '';
  command.configureOutput({
    writeOut: (more) => {
      text += more;
    },
  });
  command.outputHelp();
  command.configureOutput({ writeOut, writeErr });
  return text.slice(command.helpInformation().length).trim();
}
