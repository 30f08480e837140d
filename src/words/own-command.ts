/** Advice to run this program: for the configuration that was named on the command line; `file` null: for its own. */

/** Others choose what is filled in: quoted, so that the command may be pasted into a shell. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** `command`: one of `nodewarden`, with its options. */
export function ownCommand(command: string, file: string | null): string {
  if (file === null) return command;
  const isPositional = command.startsWith('nodewarden config ');
  return `${command} ${isPositional ? '' : '--config '}${shellWord(file)}`;
}

/** The service reads its own file, and listens on the socket of that. */
export const startCommand = (file: string | null): string =>
  file === null ? 'systemctl start nodewarden' : ownCommand('nodewarden run', file);
