// A machine whose kubelet is real: what runs on it is what that says through the API server.
import fs from 'node:fs';
import path from 'node:path';
import type { KubeObject } from '../kube/api.ts';
import { NODE_NAME } from '../kube/cluster.ts';
import { MACHINES } from './fleet.ts';
import { keyOf, type Machine, notesOf, type PodStarted } from './machine.ts';

export type RealSpec = Pick<Machine, 'name' | 'directory' | 'isOn'> &
  Partial<Pick<Machine, 'kubelet'>> & {
    /** Its processor runs. */
    readonly lives: () => boolean;
  };

const refuse = (): never => {
  throw new Error('a real machine does not do that');
};

export function aRealMachine({ lives, ...spec }: RealSpec, started: PodStarted): Machine {
  const running = new Map<string, string>();
  return {
    ...{ device: refuse, power: refuse, kubelet: refuse },
    ...spec,
    ...notesOf(spec.directory),
    running,
    tick: async () => {
      if (!spec.isOn()) running.clear();
    },
    pod: (type, pod) => {
      const key = keyOf(pod);
      const { uid = '' } = pod.metadata;
      // What the API shows of a machine that does not live is from before, and what it forgets may run on there.
      if (!lives()) return;
      if (type === 'DELETED') {
        if (running.get(key) === uid) running.delete(key);
      } else if (hasContainer(pod) && running.get(key) !== uid) {
        started(spec.name, key, uid);
        running.set(key, uid);
      }
    },
    close: async () => undefined,
  };
}

const hasContainer = ({ status }: KubeObject): boolean =>
  (status.containerStatuses ?? []).some(({ state }: { state?: { running?: object } }) => state?.running !== undefined);

/** This machine, with kube/node as its kubelet. For fence_lab it is on. */
export function hostMachine(started: PodStarted): Machine {
  const directory = path.join(MACHINES, NODE_NAME);
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(directory, { recursive: true });
  fs.writeFileSync(path.join(directory, 'power'), 'on\n');
  return aRealMachine({ name: NODE_NAME, directory, isOn: () => true, lives: () => true }, started);
}
