import { connect, createServer } from 'node:net';

/** A port that nothing listens on, a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** Sends this and hears everything until the server hangs up. */
export function talk(port: number, said: string | Buffer, host = '127.0.0.1'): Promise<string> {
  return new Promise((resolve) => {
    let heard = '';
    const socket = connect(port, host, () => socket.write(said));
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      heard += text;
    });
    // Cut off in the middle of what we said is how garbage ends.
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(heard));
  });
}

export const get = (port: number, path: string, host = 'localhost'): Promise<string> =>
  talk(port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
export const bodyOf = (answer: string): string => answer.slice(answer.indexOf('\r\n\r\n') + 4);
