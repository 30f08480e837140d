// The man pages: nodewarden(1) from the commands, nodewarden(5) and nodewarden-guard(5) from the schemas of the configurations.

/** Without a date, so that the same tree gives the same bytes. */
function title(section, version, page = 'NODEWARDEN') {
  return `.TH ${page} ${section} "" "nodewarden ${version}" "nodewarden"`;
}

export function commandsPage(commands, version) {
  const [program, ...rest] = commands;
  return page([
    title(1, version),
    '.SH NAME',
    `nodewarden \\- ${roff(lowerFirst(program.description))}`,
    '.SH SYNOPSIS',
    '.B nodewarden',
    '.I command',
    '[\\fIoption\\fR ...] [\\fIargument\\fR ...]',
    '.SH DESCRIPTION',
    roff(
      "A node agent that monitors memory, disk space, inodes and process IDs, and evicts one pod at a time by the kubelet's rules before the kernel OOM killer picks a process. When the machine goes down, it stops the pods in phases by priority. A pod is a systemd unit, a Podman container or a cgroup that a manifest binds, or a pod of a kubelet.",
    ),
    ...terms(program.options.map(optionTerm)),
    ...after(program.after),
    '.SH COMMANDS',
    ...rest.filter(({ subcommands }) => subcommands.length === 0).flatMap(section),
    '.SH FILES',
    ...terms([
      ['\\fI/etc/nodewarden/config.yaml\\fR', 'the configuration, see nodewarden(5)'],
      ['\\fI/etc/nodewarden/pods.d\\fR', 'manifests of the pods, in mode standalone'],
      ['\\fI/run/nodewarden\\fR', 'state and socket of the running agent'],
      ['\\fI/var/lib/nodewarden\\fR', 'the record of decisions'],
      ['\\fI/etc/nodewarden/guard.yaml\\fR', 'the configuration of the guard, see nodewarden-guard(5)'],
      ['\\fI/run/nodewarden\\-guard\\fR, \\fI/var/lib/nodewarden\\-guard\\fR', 'socket and record of the guard'],
      ['\\fI/usr/share/nodewarden\\fR', 'example manifests and scenarios'],
    ]),
    '.SH SEE ALSO',
    '.BR nodewarden (5),',
    '.BR nodewarden\\-guard (5),',
    '.BR systemctl (1),',
    '.BR systemd.resource\\-control (5)',
  ]);
}

export function configurationPage(schema, version) {
  return schemaPage(schema, {
    head: title(5, version),
    name: 'nodewarden \\- configuration of the node agent nodewarden',
    file: '/etc/nodewarden/config.yaml',
    about:
      'YAML with apiVersion nodewarden.dev/v1alpha1 and kind NodewardenConfiguration. Every field is optional. Fields that the kubelet has too have its names, meaning, syntax and defaults. The running agent reloads the file when it changes; a file with errors changes nothing.',
  });
}

export function guardConfigurationPage(schema, version) {
  return schemaPage(schema, {
    head: title(5, version, 'NODEWARDEN\\-GUARD'),
    name: 'nodewarden\\-guard \\- configuration of the guard, which fences dead machines of a cluster',
    file: '/etc/nodewarden/guard.yaml',
    about:
      'YAML with apiVersion nodewarden.dev/v1alpha1 and kind NodewardenGuardConfiguration. The running guard reloads the file when it changes; a file with errors changes nothing. Without the file, nodewarden-guard.service does not start.',
  });
}

function schemaPage(schema, { head, name, file, about }) {
  return page([
    head,
    '.SH NAME',
    name,
    '.SH SYNOPSIS',
    `.I ${file}`,
    '.SH DESCRIPTION',
    roff(about),
    '.P',
    roff('To check a file: nodewarden config check FILE. To see every value in force: nodewarden config show FILE.'),
    '.SH FIELDS',
    ...terms(fieldsOf(schema, '')),
    '.SH SEE ALSO',
    '.BR nodewarden (1)',
  ]);
}

/** One term for each field that is not only a bracket around others: `nodefs.path`, `reclaimCommands[].signal`. */
function fieldsOf(schema, prefix) {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = `${prefix}${name}`;
    const inner = [...fieldsOf(field, `${path}.`), ...fieldsOf(field.items ?? {}, `${path}[].`)];
    return [...(field.description === undefined ? [] : [fieldTerm(path, field)]), ...inner];
  });
}

function fieldTerm(path, { description, default: usual, enum: values, examples }) {
  const facts = [
    ...(values === undefined ? [] : [`One of: ${values.join(', ')}.`]),
    ...(usual === undefined ? [] : [`Default: ${JSON.stringify(usual)}.`]),
    ...(examples === undefined ? [] : [`Example: ${JSON.stringify(examples[0])}.`]),
  ];
  return [`\\fB${roff(path)}\\fR`, [`${upperFirst(description)}.`, ...facts].join(' ')];
}

function section({ words, usage, description, options, args, after: text }) {
  return [
    `.SS ${roff(words.join(' '))}`,
    `\\fB${roff(usage)}\\fR`,
    '.P',
    `${roff(description)}.`,
    ...terms([...args.map(({ name, full }) => [`\\fI${roff(name)}\\fR`, full]), ...options.map(optionTerm)]),
    ...after(text),
  ];
}

function optionTerm({ flags, value, full }) {
  const names = flags.map((flag) => `\\fB${roff(flag)}\\fR`).join(', ');
  return [`${names}${value === null ? '' : ` \\fI${roff(value.name)}\\fR`}`, full];
}

function terms(pairs) {
  return pairs.flatMap(([term, text]) => ['.TP', term, roff(text)]);
}

/** Indented lines are commands, and stay as they are. */
function after(text) {
  const lines = [];
  let last = 'blank';
  for (const line of [...text.split('\n'), '']) {
    const kind = line === '' ? 'blank' : line.startsWith('  ') ? 'commands' : 'text';
    if (kind !== last && last === 'commands') lines.push('.EE');
    if (kind !== last && kind !== 'blank') lines.push('.P');
    if (kind !== last && kind === 'commands') lines.push('.EX');
    if (kind !== 'blank') lines.push(roff(line));
    last = kind;
  }
  return lines;
}

function page(lines) {
  return `${lines.join('\n')}\n`;
}

function roff(text) {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/gm, '\\&$1');
}

function lowerFirst(text) {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}

function upperFirst(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
