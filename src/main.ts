import { keepHeapSmall } from './host/own/heap.ts';
import { watchOutput } from './host/own/output.ts';
import { sayLast } from './host/own/stderr.ts';

process.title = 'nodewarden';

/** The command has ended, or the reason why it did not is printed: this process never ends silently. */
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
const isGuard = args[0] === 'guard' && args[1] === 'run';
const isDaemon = args[0] === 'run' || isGuard;
if (isDaemon) {
  keepHeapSmall();
  // If nobody reads our output any more, the node must still be guarded. A reload may be requested before there is
  // anything to reload (daemon/run.ts gets it later).
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  process.on('SIGHUP', () => undefined);
} else {
  watchOutput((status) => {
    isOver = true;
    process.exit(status);
  });
}
const program = isGuard
  ? import('./cli/guard/program.ts')
  : isDaemon
    ? import('./cli/daemon-program.ts')
    : import('./cli/program.ts');
program
  .then(({ runProgram }) => runProgram(args))
  .then(() => {
    isOver = true;
  })
  .catch(endWith);
