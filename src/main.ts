import { keepHeapSmall } from './host/heap.ts';

process.title = 'nodewarden';

function endWith(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`nodewarden ended because of a mistake in itself: ${text.replaceAll('\n', ' | ')}\n`);
  process.exit(1);
}
process.on('uncaughtException', endWith);
process.on('unhandledRejection', endWith);
// Who reads us may go: `nodewarden history | head` is no failure.
process.stdout.on('error', () => process.exit(0));

const args = process.argv.slice(2);
const isDaemon = args[0] === 'run';
if (isDaemon) keepHeapSmall();
const program = isDaemon ? import('./cli/daemon-program.ts') : import('./cli/program.ts');
program.then(({ runProgram }) => runProgram(args)).catch(endWith);
