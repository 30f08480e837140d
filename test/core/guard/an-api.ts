import type { Act } from '../../../src/core/guard/decision.ts';
import type { ActResult, ConsistentLook, NodeObject, NodeView } from '../../../src/core/guard/observation.ts';
import type { FencingRecord, StoredRecord } from '../../../src/core/guard/record.ts';
import type { Machine } from './a-machine.ts';

const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';

/** What the API server has of these machines, and what Kubernetes does to them. */
export function anApi(machines: readonly Machine[]) {
  const records = new Map<string, { version: number; record: FencingRecord }>();
  /** Made unreadable by hand: the node that the name tells. */
  const edited = new Map<string, string | null>();
  const objects = new Map<string, { text: string; object: NodeObject }>();
  let views: readonly NodeView[] = [];

  /** One moment of its kubelet and of the controllers, which all reach the API or none. */
  function live(machine: Machine, nowMs: number, isUp: boolean, hasControllers = true): void {
    const isAlive = machine.isOn && machine.isHeard && !machine.isDeleted && nowMs >= machine.bootedMs;
    if (isAlive && isUp && nowMs - machine.heardMs >= 10_000) {
      machine.heardMs = nowMs;
      machine.renewals += 1;
      machine.ready = machine.announces ? 'False' : 'True';
    }
    if (!hasControllers) return;
    if (isUp && nowMs - machine.heardMs > 50_000) machine.ready = 'Unknown';
    const isTainted = machine.taints.some(({ key }) => key === OUT_OF_SERVICE);
    if (isTainted && machine.ready !== 'True' && nowMs % 20_000 === 0) {
      machine.pods = machine.pods.filter(({ toleratesTaint, finalizers }) => toleratesTaint || finalizers.length > 0);
      if (machine.pods.every(({ toleratesTaint }) => toleratesTaint)) machine.attachments = [];
    }
  }

  /** The same object as before as long as nothing in it changes. */
  function objectOf(machine: Machine): NodeObject {
    const message = machine.announces ? 'node is shutting down' : '';
    const object: NodeObject = {
      name: machine.name,
      uid: machine.uid,
      key: machine.name,
      bootId: `${machine.hardware}-boot-${machine.boots}`,
      systemUuid: `${machine.hardware}-uuid`,
      created: machine.created,
      isDeleting: false,
      isUnschedulable: machine.isUnschedulable,
      labels: machine.labels,
      annotations: machine.annotations,
      taints: machine.taints,
      conditions: [
        {
          type: 'Ready',
          status: machine.ready,
          reason: machine.ready === 'Unknown' ? 'NodeStatusUnknown' : 'KubeletReady',
          message,
          heartbeat: 'h',
        },
      ],
    };
    const text = JSON.stringify(object);
    const before = objects.get(machine.uid);
    if (before?.text === text) return before.object;
    objects.set(machine.uid, { text, object });
    return object;
  }

  const leaseOf = ({ renewals, renewTime }: Machine) => ({ renewed: renewTime(renewals), durationMs: 40_000 });

  /** As last read; `isUp`: read now. */
  function viewsOf(isUp: boolean): readonly NodeView[] {
    const now = machines
      .filter(({ isDeleted, isLeftOut }) => !isDeleted && !isLeftOut)
      .map((machine) => ({ object: objectOf(machine), lease: leaseOf(machine) }));
    if (isUp) views = now;
    return views;
  }

  function lookAt(machine: Machine | undefined): ConsistentLook {
    const node = machine === undefined || machine.isDeleted ? null : objectOf(machine);
    const lease = machine === undefined ? null : leaseOf(machine);
    return { node, lease, resourceVersion: `rv-${node?.bootId}` };
  }

  const stored = (): readonly StoredRecord[] =>
    [...new Set([...records.keys(), ...edited.keys()])].flatMap((id): readonly StoredRecord[] => {
      const nodeKey = edited.get(id);
      const stored = records.get(id);
      if (nodeKey !== undefined) return [{ id, version: 'edited', record: null, problem: 'no JSON', nodeKey }];
      return stored === undefined ? [] : [{ id, version: String(stored.version), record: stored.record }];
    });

  function patch(machine: Machine, act: Act, fencing: string, nowMs: number): ActResult {
    if (machine.isDeleted) return { kind: 'failed', why: 'gone', detail: '' };
    const value = `nodewarden.${fencing}`;
    const out = { key: OUT_OF_SERVICE, value, effect: 'NoExecute' };
    const fenced = { key: 'nodewarden.dev/fenced', value: fencing, effect: 'NoSchedule' };
    if (act.kind === 'tell') {
      if (nowMs > act.notAfterMs) return { kind: 'failed', why: 'error', detail: 'too late' };
      machine.taints = [...machine.taints, out, fenced];
    }
    if (act.kind === 'untell' || act.kind === 'clear') machine.taints = machine.taints.filter((t) => t.value !== value);
    if (act.kind === 'clear') machine.taints = machine.taints.filter((t) => t.value !== fencing);
    return { kind: 'patched' };
  }

  return { records, edited, live, viewsOf, lookAt, stored, patch };
}
