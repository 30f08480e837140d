import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Client, credentials } from '@grpc/grpc-js';
import { createClock, sleep } from '../../src/host/clock.ts';
import { openCriClient } from '../../src/kube/cri/client.ts';
import { NamespaceMode, RuntimeService as Setup } from './setup_pb.ts';

const clock = createClock();
const CACHE = process.env['NODEWARDEN_LAB_CACHE'] ?? join(homedir(), '.cache/nodewarden-lab');
const PRIVATE = join(CACHE, 'kube/deb');
/** `NODEWARDEN_CONTAINERD`: a directory with another containerd, ctr and shim; runc stays the one of the system or the cache. */
const PLACES = [
  ...(process.env['NODEWARDEN_CONTAINERD'] ?? '').split(':'),
  ...(process.env['PATH'] ?? '').split(':'),
  ...['usr/bin', 'usr/sbin', 'bin'].map((place) => join(PRIVATE, place)),
].filter((place) => place !== '');
const NEEDED = ['containerd', 'ctr', 'runc', 'busybox'] as const;

function programOf(name: string): string | null {
  for (const place of PLACES) {
    try {
      accessSync(join(place, name), constants.X_OK);
      return join(place, name);
    } catch {
      // Not here.
    }
  }
  return null;
}
const missing = NEEDED.filter((name) => programOf(name) === null);
/** Why there is no containerd to test with; null: there is one. */
export const noContainerd: string | null =
  process.getuid?.() !== 0 ? 'not root' : missing.length > 0 ? `no ${missing.join(', ')}` : null;

export type PodSpec = { readonly name: string; readonly uid: string; readonly source?: string };
export type TestContainerd = {
  readonly socket: string;
  /** `docker.io/lab/<name>:1`, of which `command` is what runs. */
  readonly addImage: (name: string, command: readonly string[]) => string;
  readonly ctr: (...args: readonly string[]) => string;
  readonly runPod: (pod: PodSpec) => Promise<string>;
  /** `volume`: an image that is mounted into it (containerd 2.1 and later; older ones refuse or ignore it). */
  readonly startContainer: (
    sandbox: string,
    pod: PodSpec,
    name: string,
    image: string,
    volume?: string,
  ) => Promise<string>;
  readonly close: () => Promise<void>;
};

/** A real containerd with its own root, without a network, a registry or a kubelet. Its log is in `containerd.log`. */
export async function openContainerd(): Promise<TestContainerd> {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-containerd-'));
  const socket = join(directory, 'containerd.sock');
  const cgroup = `/nodewarden-cri-${process.pid}`;
  const log = join(directory, 'containerd.log');
  writeFileSync(join(directory, 'config.toml'), configOf(directory, socket));
  const env = { ...process.env, PATH: PLACES.join(':') };
  const daemon: ChildProcess = spawn(programOf('containerd') ?? '', ['--config', join(directory, 'config.toml')], {
    stdio: ['ignore', openSync(log, 'a'), openSync(log, 'a')],
    env,
  });
  const cri = openCriClient(socket, clock);
  for (let tries = 0; !(await cri.sandboxes()).known; tries++) {
    if (tries > 600 || daemon.exitCode !== null) throw new Error(readFileSync(log, 'utf8').slice(-3_000));
    await sleep(clock, 50);
  }
  const client = new Client(`unix:${socket}`, credentials.createInsecure());
  const ask = <I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
  ): Promise<MessageShape<O>> =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
        (bytes: Buffer) => fromBinary(method.output, bytes),
        create(method.input, request),
        (error, answer) => (error === null && answer !== undefined ? resolve(answer) : reject(error)),
      );
    });

  const configFor = ({ name, uid, source }: PodSpec) => ({
    metadata: { name, uid, namespace: 'shop', attempt: 0 },
    logDirectory: join(directory, 'logs', uid),
    labels: {
      'io.kubernetes.pod.name': name,
      'io.kubernetes.pod.namespace': 'shop',
      'io.kubernetes.pod.uid': uid,
    },
    annotations: source === undefined ? {} : { 'kubernetes.io/config.source': source },
    linux: {
      cgroupParent: cgroup,
      // Of the host: no CNI plugin is needed.
      securityContext: { namespaceOptions: { network: NamespaceMode.NODE, pid: NamespaceMode.CONTAINER } },
    },
  });
  const ctr = (...args: readonly string[]): string => {
    const done = spawnSync(programOf('ctr') ?? '', ['--address', socket, '--namespace', 'k8s.io', ...args], { env });
    if (done.status !== 0) throw new Error(`ctr ${args.join(' ')}: ${done.stderr}`);
    return String(done.stdout);
  };

  return {
    socket,
    ctr,
    addImage: (name, command) => {
      const archive = join(directory, 'image.tar');
      const image = `docker.io/lab/${name}:1`;
      const script = fileURLToPath(new URL('oci-image', import.meta.url));
      const made = spawnSync(script, [image, archive, programOf('busybox') ?? '', ...command]);
      if (made.status !== 0) throw new Error(String(made.stderr));
      ctr('images', 'import', archive);
      rmSync(archive);
      return image;
    },
    runPod: async (pod) => (await ask(Setup.method.runPodSandbox, { config: configFor(pod) })).podSandboxId,
    startContainer: async (sandbox, pod, name, image, volume) => {
      const sandboxConfig = configFor(pod);
      const { containerId } = await ask(Setup.method.createContainer, {
        podSandboxId: sandbox,
        config: {
          metadata: { name, attempt: attempts++ },
          image: { image },
          mounts: volume === undefined ? [] : [{ containerPath: '/volume', readonly: true, image: { image: volume } }],
          labels: { ...sandboxConfig.labels, 'io.kubernetes.container.name': name },
          linux: { securityContext: { namespaceOptions: sandboxConfig.linux.securityContext.namespaceOptions } },
        },
        sandboxConfig,
      });
      await ask(Setup.method.startContainer, { containerId });
      return containerId;
    },
    close: async () => {
      const sandboxes = await cri.sandboxes();
      for (const { id } of sandboxes.known ? sandboxes.value : []) {
        await cri.stopSandbox(id);
        // Whatever is left, the daemon is ended below.
        await ask(Setup.method.removePodSandbox, { podSandboxId: id }).catch(() => undefined);
      }
      cri.close();
      client.close();
      const ended = new Promise((resolve) => daemon.once('exit', resolve));
      daemon.kill('SIGTERM');
      await ended;
      removeCgroups(cgroup);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

let attempts = 0;

function configOf(directory: string, socket: string): string {
  return `version = 2
root = "${directory}/root"
state = "${directory}/state"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.nri.v1.nri"]
[grpc]
  address = "${socket}"
[ttrpc]
  address = "${socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "lab/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${directory}/cni"
    conf_dir = "${directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
`;
}

function removeCgroups(cgroup: string): void {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  for (const line of mounts) {
    const [, at = '', type = ''] = line.split(' ');
    if (type === 'cgroup' || type === 'cgroup2') spawnSync('rmdir', [`${at}${cgroup}`], { stdio: 'ignore' });
  }
}
