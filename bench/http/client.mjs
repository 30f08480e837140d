// node client.mjs PORT HOW: asks the port without pause, in one of these ways, until it is ended.
import { connect } from 'node:net';

const [port, how] = [Number(process.argv[2]), process.argv[3]];
const GET = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n';
const WAYS = { scrapes: GET, silent: '', pipelined: GET.repeat(2_000), garbage: `${'\xff'.repeat(9_000)}\r\n\r\n` };
/** Of each client at a time. */
const AT_ONCE = { scrapes: 1, silent: 1_250, pipelined: 4, garbage: 4 };

function again() {
  const socket = connect(port, '127.0.0.1', () => socket.write(WAYS[how]));
  socket.on('error', () => undefined);
  // Once more when it is hung up on.
  socket.on('close', () => setImmediate(again));
  socket.resume();
}
for (let i = 0; i < AT_ONCE[how]; i++) again();
