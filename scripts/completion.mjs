// Completions for bash, zsh and fish, from the commands.

const MADE_BY = 'Made by scripts/completion.mjs from the definitions of the commands.';

export function bashCompletion(commands) {
  return text([
    `# ${MADE_BY}`,
    '_nodewarden() {',
    `  local cur=\${COMP_WORDS[COMP_CWORD]} command="" flags="" words="" paths="" i`,
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    `    case "$command \${COMP_WORDS[i]}" in`,
    `      ${subcommandPaths(commands).map(quoted).join(' | ')}) command+=" \${COMP_WORDS[i]}" ;;`,
    '    esac',
    '  done',
    '  COMPREPLY=()',
    '  # The value of an option.',
    `  case "$command \${COMP_WORDS[COMP_CWORD - 1]}" in`,
    ...optionsWithValue(commands).map(({ path, flags, value }) => {
      const then = value.isPath
        ? 'compopt -o default'
        : `mapfile -t COMPREPLY < <(compgen -W '${value.choices.join(' ')}' -- "$cur")`;
      return `    ${flags.map((flag) => quoted(`${path} ${flag}`)).join(' | ')}) ${then}; return ;;`;
    }),
    '  esac',
    '  case $command in',
    ...commands.map(({ words, options, args, subcommands }) => {
      const flags = options.flatMap((option) => option.flags).join(' ');
      const names = subcommands.map(({ name }) => name).join(' ');
      return `    ${quoted(pathOf(words))}) flags='${flags}' words='${names}' paths='${args.some(({ isPath }) => isPath) ? 'yes' : ''}' ;;`;
    }),
    '  esac',
    '  case $cur in',
    '    -*) words=$flags ;;',
    '    *) if [ -n "$paths" ]; then compopt -o default; return; fi ;;',
    '  esac',
    '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
    '}',
    'complete -F _nodewarden nodewarden',
  ]);
}

/** One function for each command; `_arguments` knows the rest. */
export function zshCompletion(commands) {
  return text([
    '#compdef nodewarden',
    `# ${MADE_BY}`,
    ...commands.flatMap((command) => [`${zshName(command.words)}() {`, ...zshBody(command), '}']),
    `${zshName([])} "$@"`,
  ]);
}

function zshBody({ words, options, args, subcommands }) {
  const specs = [
    ...options.map(zshOption),
    ...args.map(({ name, isPath, isMany }) => quoted(`${isMany ? '*' : ''}:${name}:${isPath ? '_files' : ''}`)),
  ];
  if (subcommands.length === 0) return [`  _arguments -s ${specs.join(' ')}`];
  const described = subcommands.map(({ name, description }) => quoted(`${name}:${description.replaceAll(':', '\\:')}`));
  return [
    '  local state line curcontext=$curcontext commands',
    '  typeset -A opt_args',
    `  _arguments -C ${[...specs, "'1: :->command'", "'*:: :->rest'"].join(' ')}`,
    '  case $state in',
    `    command) commands=(${described.join(' ')}); _describe command commands ;;`,
    `    rest) case $line[1] in ${subcommands.map(({ name }) => `${name}) ${zshName([...words, name])} ;;`).join(' ')} esac ;;`,
    '  esac',
  ];
}

function zshOption({ flags, value, description }) {
  const explained = `[${description.replace(/[[\]:\\]/g, '\\$&')}]`;
  const choices = value?.isPath ? '_files' : value?.choices.length ? `(${value.choices.join(' ')})` : '';
  const rest = quoted(`${explained}${value === null ? '' : `:${value.name}:${choices}`}`);
  return flags.length === 1 ? `${flags[0]}${rest}` : `${quoted(`(${flags.join(' ')})`)}{${flags.join(',')}}${rest}`;
}

export function fishCompletion(commands) {
  return text([
    `# ${MADE_BY}`,
    'function __fish_nodewarden_is',
    "    set -l command ''",
    '    for word in (commandline -opc)[2..-1]',
    '        switch "$command $word"',
    `            case ${subcommandPaths(commands).map(quoted).join(' ')}`,
    '                set command "$command $word"',
    '        end',
    '    end',
    '    test "$command" = "$argv[1]"',
    'end',
    'complete -c nodewarden -f',
    ...commands.flatMap(fishOf),
  ]);
}

function fishOf({ words, options, args, subcommands }) {
  const start = `complete -c nodewarden -n "__fish_nodewarden_is ${quoted(pathOf(words))}"`;
  return [
    ...subcommands.map(({ name, description }) => `${start} -a ${name} -d ${quoted(description)}`),
    ...(args.some(({ isPath }) => isPath) ? [`${start} -F`] : []),
    ...options.map(({ flags, value, description }) => {
      const names = flags
        .map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
        .join(' ');
      const takes = value === null ? '' : value.isPath ? ' -r -F' : ` -x -a ${quoted(value.choices.join(' '))}`;
      return `${start} ${names}${takes} -d ${quoted(description)}`;
    }),
  ];
}

/** `' config check'`: the words with a blank before each; '' is the program. */
function pathOf(words) {
  return words.map((word) => ` ${word}`).join('');
}

function subcommandPaths(commands) {
  return commands.map(({ words }) => pathOf(words)).filter((path) => path !== '');
}

function optionsWithValue(commands) {
  return commands.flatMap(({ words, options }) =>
    options.filter(({ value }) => value !== null).map((option) => ({ path: pathOf(words), ...option })),
  );
}

function zshName(words) {
  return ['_nodewarden', ...words].join('_').replaceAll('-', '_');
}

function quoted(value) {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

function text(lines) {
  return `${lines.join('\n')}\n`;
}
