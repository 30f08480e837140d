import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServiceDefinition, status } from '@grpc/grpc-js';
import { ImageService, RuntimeService } from '../../src/kube/cri/cri_pb.ts';

/** How the stub answers a call: with bytes, with an error, or (null) never. */
export type Said = { readonly bytes: Uint8Array } | { readonly code: number; readonly details: string } | null;
type Answer = (request: Uint8Array) => Said | Promise<Said>;
export type StubRuntime = {
  readonly socket: string;
  /** The calls that came, in their order. */
  readonly calls: readonly string[];
  readonly on: <I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    answer: (request: MessageShape<I>) => MessageInitShape<O>,
  ) => void;
  readonly onRaw: (method: { readonly name: string }, answer: Answer) => void;
  /** Drops every connection, as a runtime that dies. */
  readonly kill: () => void;
  readonly start: () => Promise<void>;
  readonly remove: () => void;
};

const METHODS = [RuntimeService, ImageService].flatMap(({ methods }) => methods);
const asIs = (bytes: Buffer): Buffer => bytes;
export const unimplemented = (): Said => ({
  code: status.UNIMPLEMENTED,
  details: 'unknown service runtime.v1.RuntimeService',
});

/** A gRPC server that answers Version, and everything else as it is told to; for faults that containerd cannot be made to show. */
export async function openStubRuntime(): Promise<StubRuntime> {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-cri-'));
  const socket = join(directory, 'cri.sock');
  const answers = new Map<string, Answer>();
  const calls: string[] = [];
  let server: Server | null = null;
  const onRaw: StubRuntime['onRaw'] = ({ name }, answer) => void answers.set(name, answer);
  const on: StubRuntime['on'] = (method, answer) =>
    onRaw(method, (request) => ({
      bytes: toBinary(method.output, create(method.output, answer(fromBinary(method.input, request)))),
    }));

  async function start(): Promise<void> {
    const mine = new Server();
    for (const service of [RuntimeService, ImageService]) {
      const definition: { [name: string]: ServiceDefinition[string] } = {};
      for (const { name } of service.methods) {
        definition[name] = {
          path: `/${service.typeName}/${name}`,
          requestStream: false,
          responseStream: false,
          requestSerialize: asIs,
          requestDeserialize: asIs,
          responseSerialize: asIs,
          responseDeserialize: asIs,
        };
      }
      const implementation = Object.fromEntries(
        service.methods.map(({ name }) => [
          name,
          async (call: { request: Buffer }, reply: (error: object | null, bytes?: Buffer) => void) => {
            calls.push(name);
            const said = (await answers.get(name)?.(call.request)) ?? null;
            if (said === null) return;
            if ('bytes' in said) reply(null, Buffer.from(said.bytes));
            else reply(said);
          },
        ]),
      );
      mine.addService(definition, implementation);
    }
    await new Promise<void>((resolve, reject) =>
      mine.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      ),
    );
    server = mine;
  }
  const kill = (): void => {
    server?.forceShutdown();
    server = null;
    rmSync(socket, { force: true });
  };

  for (const method of METHODS) onRaw(method, unimplemented);
  on(RuntimeService.method.version, () => ({ runtimeName: 'stub', runtimeVersion: '1' }));
  await start();
  return {
    socket,
    calls,
    on,
    onRaw,
    kill,
    start,
    remove: () => {
      kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
