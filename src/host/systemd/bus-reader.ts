import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';

const HEADER_BYTES = 16;
const LITTLE_ENDIAN = 'l'.charCodeAt(0);

/**
 * Sits between an authenticated connection of dbus-next and its socket. The package decodes a message of any size at once, in
 * the event loop, and any user of the machine may send a signal of 32 MiB to any connection. Nobody could catch what it throws
 * on a malformed message. A message larger than `maxBytes` is skipped: nobody receives it, and a call waits until its deadline.
 * `broken`: nothing more can be read.
 */
export function guardReader(
  connection: EventEmitter,
  stream: Duplex,
  { maxBytes, broken }: { readonly maxBytes: number; readonly broken: (cause: unknown) => void },
): void {
  // Right before the package begins to read messages.
  connection.once('connect', () => {
    const listen = stream.on.bind(stream);
    Reflect.set(stream, 'on', (event: string, heard: (...args: unknown[]) => void) =>
      listen(event, event === 'readable' ? guarded(heard, broken) : heard),
    );
    stream.read = withoutLarge(stream, maxBytes);
  });
}

const guarded = (heard: () => void, broken: (cause: unknown) => void) => (): void => {
  try {
    heard();
  } catch (cause) {
    broken(cause);
  }
};

/** The package alternately reads a header and the rest of its message. */
function withoutLarge(stream: Duplex, maxBytes: number): Duplex['read'] {
  const read = stream.read.bind(stream);
  let isHeader = true;
  let skipBytes = 0;
  return (bytes) => {
    for (;;) {
      while (skipBytes > 0) {
        const part: Buffer | null = read(Math.min(skipBytes, stream.readableLength));
        if (part === null) return null;
        skipBytes -= part.length;
      }
      const got: Buffer | null = read(bytes);
      if (got === null) return null;
      const isBody = !isHeader;
      const restBytes = isBody ? 0 : bytesAfter(got);
      if (isBody || restBytes <= maxBytes) {
        isHeader = !isHeader;
        return got;
      }
      skipBytes = restBytes;
    }
  };
}

/** From the lengths of the body and of the header fields, which are padded to 8 bytes. */
function bytesAfter(header: Buffer): number {
  if (header.length < HEADER_BYTES) return 0;
  const at = (offset: number): number =>
    header[0] === LITTLE_ENDIAN ? header.readUInt32LE(offset) : header.readUInt32BE(offset);
  return at(4) + Math.ceil(at(12) / 8) * 8;
}
