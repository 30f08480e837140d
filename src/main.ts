import { keepHeapSmall } from './host/heap.ts';
import { sayLast } from './host/stderr.ts';

process.title = 'nodewarden';

/** The command has come to its end, or why it did not is said: no way out of this process is silent. */
let isOver = false;

function endWith(error: unknown): void {
  isOver = true;
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  sayLast(`nodewarden crashed; this is a bug: ${text.replaceAll('\n', ' | ')}`);
  process.exit(1);
}
process.on('uncaughtException', endWith);
process.on('unhandledRejection', endWith);
process.on('beforeExit', () => {
  if (!isOver) endWith('no pending work was left');
});
process.on('exit', (status) => {
  if (!isOver) sayLast(`nodewarden exited early with status ${status}`);
});

const args = process.argv.slice(2);
const isDaemon = args[0] === 'run';
if (isDaemon) {
  keepHeapSmall();
  // Nobody reads us any more, which is no reason to leave the node alone; and a reload may be asked for before there is
  // anything to load anew (daemon/run.ts hears of it later).
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  process.on('SIGHUP', () => undefined);
} else {
  // Who reads us may go: `nodewarden history | head` is no failure.
  process.stdout.on('error', () => {
    isOver = true;
    process.exit(0);
  });
}
const program = isDaemon ? import('./cli/daemon-program.ts') : import('./cli/program.ts');
program
  .then(({ runProgram }) => runProgram(args))
  .then(() => {
    isOver = true;
  })
  .catch(endWith);
