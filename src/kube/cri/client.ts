import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Client, credentials, logVerbosity, Metadata, type ServiceError, setLogVerbosity, status } from '@grpc/grpc-js';
import { known, type Reading, sayCause, type Unknown, unknown } from '../../core/reading.ts';
import { escapeUnsafe } from '../../core/units/escape.ts';
import type { Clock } from '../../ports.ts';
import {
  type Container,
  type ContainerStats,
  type ContainerStatus,
  type FilesystemUsage,
  type Image,
  ImageService,
  type LinuxRuntimeConfiguration,
  type PodSandbox,
  RuntimeService,
  type VersionResponse,
} from './cri_pb.ts';

/**
 * The container runtime over CRI v1, limited to the calls that beside-a-kubelet.md A12 allows. Each call has a deadline of
 * its own, never rejects, and reconnects by itself. No call is retried.
 *
 * Unknown: `timed-out`; `malformed` = not a valid message, or one above 16 MiB; `absent` = the runtime has no such object;
 * `not-applicable` = the runtime does not implement the call; `unreadable` = any other error, with its text.
 *
 * Answers are as the runtime gave them, and tenants chose parts of them (H20): names are not checked here.
 */
export type CriClient = {
  readonly socket: string;
  readonly version: () => Promise<Reading<VersionResponse>>;
  /** From the verbose answer: the runtime's description of itself, JSON by key. */
  readonly info: () => Promise<Reading<Info>>;
  readonly config: () => Promise<Reading<LinuxRuntimeConfiguration | undefined>>;
  readonly sandboxes: () => Promise<Reading<readonly PodSandbox[]>>;
  /** From the verbose answer, JSON by key. */
  readonly sandboxInfo: (id: string) => Promise<Reading<Info>>;
  readonly containers: () => Promise<Reading<readonly Container[]>>;
  readonly container: (id: string) => Promise<Reading<ContainerStatus>>;
  /** From the verbose answer, JSON by key. */
  readonly containerInfo: (id: string) => Promise<Reading<Info>>;
  readonly stats: () => Promise<Reading<readonly ContainerStats[]>>;
  readonly images: () => Promise<Reading<readonly Image[]>>;
  /** Null: there is no such image. */
  readonly image: (ref: string) => Promise<Reading<Image | null>>;
  readonly imageFilesystems: () => Promise<Reading<Filesystems>>;
  /** Removes every name of it. The runtime does not check whether a container uses it: the caller must. */
  readonly removeImage: (id: string) => Promise<Reading<null>>;
  /** Call it only after `container` reported that it has exited: containerd 1.6 also removes running containers. */
  readonly removeContainer: (id: string) => Promise<Reading<null>>;
  /** SIGTERM, then SIGKILL after the timeout. Waits for the end. */
  readonly stopContainer: (id: string, graceSeconds: number) => Promise<Reading<null>>;
  readonly stopSandbox: (id: string) => Promise<Reading<null>>;
  /** Calls that are under way are still answered. */
  readonly close: () => void;
  /** Ends the calls that are under way. */
  readonly cancel: () => void;
};
type Info = { readonly [key: string]: string };
type Filesystems = { readonly image: readonly FilesystemUsage[]; readonly container: readonly FilesystemUsage[] };

/** H20. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
const DETAIL_MAX = 300;
/** [design] containerd answers all reads within 100 ms; the rest is headroom for a busy disk. */
const READ_MS = 5_000;
/** One pass over all containers and their cgroups. */
const STATS_MS = 10_000;
/** containerd garbage-collects before it answers. */
const REMOVE_MS = 30_000;
/** In addition to the grace period: for SIGKILL and the runtime's cleanup. */
const STOP_MARGIN_MS = 5_000;
/** The package's message for an answer that it discards; it has no error code for that. */
const NOT_DECODED = /^(Response message parsing error|Received message larger than max)/;
const OPTIONS = {
  'grpc.max_receive_message_length': MESSAGE_BYTES_MAX,
  'grpc.enable_channelz': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

/** `socket`: an absolute path. Connects with the first call. */
export function openCriClient(socket: string, clock: Clock): CriClient {
  // The package's own log may contain text of the runtime, and goes to standard error unescaped.
  setLogVerbosity(logVerbosity.NONE);
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), OPTIONS);
  let isClosed = false;
  const underWay = new Set<{ readonly cancel: () => void }>();

  function call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    deadlineMs: number,
  ): Promise<Reading<MessageShape<O>>> {
    const where = `CRI ${method.name}`;
    const failed = (why: Unknown['why'], text: string): Unknown =>
      unknown(why, where, `${socket}: ${escapeUnsafe(text.slice(0, DETAIL_MAX))}`);
    if (isClosed) return Promise.resolve(failed('unreadable', 'closed'));
    return new Promise((resolve) => {
      // A timer of our own: the package's starts only once there is a connection.
      let cancel = (): void => undefined;
      const finish = (reading: Reading<MessageShape<O>>): void => {
        cancel();
        resolve(reading);
      };
      try {
        const asked = client.makeUnaryRequest(
          `/${method.parent.typeName}/${method.name}`,
          // The package wants a Buffer, and fails with "Failed to write message" on the Uint8Array.
          (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
          (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes, { readUnknownFields: false }),
          create(method.input, request),
          new Metadata(),
          (error: ServiceError | null, answer?: MessageShape<O>) => {
            underWay.delete(asked);
            if (error !== null) finish(failed(whyOf(error), error.details || error.message));
            else if (answer === undefined) finish(failed('malformed', 'an answer without a message'));
            else finish(known(answer));
          },
        );
        underWay.add(asked);
        cancel = clock.after(deadlineMs, () => {
          finish(failed('timed-out', `no answer within ${deadlineMs} ms`));
          asked.cancel();
        });
      } catch (cause) {
        finish(failed('unreadable', sayCause(cause)));
      }
    });
  }

  async function ask<I extends DescMessage, O extends DescMessage, T>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    read: (answer: MessageShape<O>) => T,
    deadlineMs = READ_MS,
  ): Promise<Reading<T>> {
    const answer = await call(method, request, deadlineMs);
    return answer.known ? known(read(answer.value)) : answer;
  }
  const none = (): null => null;

  const runtime = RuntimeService.method;
  const images = ImageService.method;
  return {
    socket,
    version: () => ask(runtime.version, { version: 'v1' }, (answer) => answer),
    info: () => ask(runtime.status, { verbose: true }, ({ info }) => info),
    config: () => ask(runtime.runtimeConfig, {}, ({ linux }) => linux),
    sandboxes: () => ask(runtime.listPodSandbox, {}, ({ items }) => items),
    sandboxInfo: (id) => ask(runtime.podSandboxStatus, { podSandboxId: id, verbose: true }, ({ info }) => info),
    containers: () => ask(runtime.listContainers, {}, ({ containers }) => containers),
    container: async (id) => {
      const answer = await ask(runtime.containerStatus, { containerId: id }, (of) => of.status);
      if (!answer.known) return answer;
      return answer.value === undefined
        ? unknown('malformed', 'CRI ContainerStatus', `${socket}: an answer without a status`)
        : known(answer.value);
    },
    containerInfo: (id) => ask(runtime.containerStatus, { containerId: id, verbose: true }, ({ info }) => info),
    stats: () => ask(runtime.listContainerStats, {}, ({ stats }) => stats, STATS_MS),
    images: () => ask(images.listImages, {}, (answer) => answer.images),
    image: (ref) => ask(images.imageStatus, { image: { image: ref } }, ({ image }) => image ?? null),
    imageFilesystems: () =>
      ask(images.imageFsInfo, {}, (answer) => ({
        image: answer.imageFilesystems,
        container: answer.containerFilesystems,
      })),
    removeImage: (id) => ask(images.removeImage, { image: { image: id } }, none, REMOVE_MS),
    removeContainer: (id) => ask(runtime.removeContainer, { containerId: id }, none, REMOVE_MS),
    stopContainer: (id, graceSeconds) =>
      ask(
        runtime.stopContainer,
        { containerId: id, timeout: BigInt(Math.max(0, Math.ceil(graceSeconds))) },
        none,
        graceSeconds * 1_000 + STOP_MARGIN_MS,
      ),
    stopSandbox: (id) => ask(runtime.stopPodSandbox, { podSandboxId: id }, none, REMOVE_MS),
    close: () => {
      isClosed = true;
      client.close();
    },
    cancel: () => {
      for (const call of underWay) call.cancel();
    },
  };
}

function whyOf({ code, details }: ServiceError): Unknown['why'] {
  switch (code) {
    case status.NOT_FOUND:
      return 'absent';
    case status.UNIMPLEMENTED:
      return 'not-applicable';
    case status.DEADLINE_EXCEEDED:
      return 'timed-out';
    default:
      return NOT_DECODED.test(details) ? 'malformed' : 'unreadable';
  }
}
