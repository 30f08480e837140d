import type { Order } from '../../core/guard/observation.ts';
import { NO_FAULTS } from './device.ts';
import type { Guards } from './guards.ts';
import { uidOf } from './objects.ts';
import { GUARD_ORDERS, storedOrders } from './process/senses.ts';
import type { DeviceEvent, ScenarioEvent, ScenarioOrder } from './scenario.ts';
import type { World } from './world.ts';

/** Makes one event of a scenario happen. */
export function happen(
  event: ScenarioEvent,
  world: World,
  guards: Guards,
  takes: { readonly shutdownMs: number },
): void {
  const { network, api, kubernetes, store, agenda } = world;
  const eachMachine = (
    nodes: readonly string[],
    act: (machine: NonNullable<ReturnType<World['machines']['get']>>) => void,
  ) =>
    nodes.forEach((node) => {
      const machine = world.machines.get(node);
      if (machine !== undefined) act(machine);
    });
  switch (event.kind) {
    case 'power':
      for (const node of event.nodes) switchPower(node, event.isOn, world);
      return;
    case 'freeze':
      eachMachine(event.nodes, (machine) => machine.freeze(event.isFrozen));
      return;
    case 'kubelet':
      eachMachine(event.nodes, (machine) => machine.runKubelet(event.isRunning));
      return;
    case 'cut':
      network.cut(event.nodes, event.from);
      return;
    case 'heal':
      network.heal(event.nodes);
      return;
    case 'api':
      api.setMode(event.mode);
      return;
    case 'device':
      setFaults(event, world);
      return;
    case 'guard':
      guards.apply(event);
      return;
    case 'clock':
      for (const node of event.nodes) world.stepClock(node, event.stepMs);
      if (event.guard !== null) guards.stepClock(event.guard, event.stepMs);
      return;
    case 'announce':
      for (const node of event.nodes) kubernetes.announce(node, event.what, takes.shutdownMs);
      return;
    case 'annotate':
    case 'label':
      for (const node of event.nodes) {
        const field = event.kind === 'annotate' ? 'annotations' : 'labels';
        const { [event.key]: _, ...others } = store.node(node)?.[field] ?? {};
        store.putNode(node, { [field]: event.value === null ? others : { ...others, [event.key]: event.value } });
      }
      return;
    case 'taint':
      for (const node of event.nodes) setTaint(node, event, world);
      return;
    case 'cordon':
      for (const node of event.nodes) store.putNode(node, { isCordoned: event.isSet });
      return;
    case 'deleteNode':
      for (const node of event.nodes) kubernetes.deleteNode(node);
      return;
    case 'deleteRecords':
      for (const name of store.names()) if (name.startsWith('fencing-')) store.remove(name);
      return;
    case 'order':
      putOrder(event.order, world, guards.holder(), agenda.now());
  }
}

/** A person or a failure, not a guard: supply, outlets and power button, all at once. */
function switchPower(node: string, isOn: boolean, { machines, devicesOf }: World): void {
  const machine = machines.get(node);
  if (machine === undefined) return;
  if (!isOn) {
    machine.switchFeed(false);
    return;
  }
  const outlets = devicesOf(node).filter(({ kind }) => kind === 'pdu').length;
  for (let outlet = 0; outlet < outlets; outlet++) machine.switchOutlet(outlet, true, null);
  machine.switchFeed(true);
  machine.switchChassis(true, null);
}

function setFaults({ nodes, level, kind: _, atMs: __, ...faults }: DeviceEvent & { atMs: number }, world: World): void {
  const isNone = JSON.stringify(faults) === JSON.stringify(NO_FAULTS);
  for (const node of nodes) {
    for (const device of world.devicesOf(node)) {
      if (level !== null && device.level !== level) continue;
      device.setFaults(isNone ? NO_FAULTS : faults);
      world.tell({ kind: 'device', atMs: world.agenda.now(), node, method: device.key, isSound: isNone });
    }
  }
}

function setTaint(
  name: string,
  { key, value, isSet }: Extract<ScenarioEvent, { kind: 'taint' }>,
  { store, kubernetes, tell, agenda }: World,
): void {
  const node = store.node(name);
  if (node === null) return;
  const others = node.taints.filter((taint) => taint.key !== key);
  store.putNode(name, { taints: isSet ? [...others, { key, value, effect: 'NoExecute' }] : others });
  const fact = { atMs: agenda.now(), node: name, key, by: null };
  for (const taint of node.taints) {
    if (taint.key === key) tell({ kind: 'taint-removed', ...fact, value: taint.value });
  }
  if (isSet) tell({ kind: 'taint-added', ...fact, value });
  kubernetes.tainted(name);
}

function putOrder(order: ScenarioOrder, { store }: World, holder: string, nowMs: number): void {
  const { orders, answers } = storedOrders(store);
  const written = { ...orderOf(order, `order-${orders.length + 1}-${nowMs}`, holder, store), said: order };
  store.write(GUARD_ORDERS, store.read(GUARD_ORDERS)?.version ?? null, { orders: [...orders, written], answers });
}

function orderOf(
  { verb, scope, forMs, by, because, isDeviceWrong }: ScenarioOrder,
  id: string,
  to: string,
  store: World['store'],
): Order {
  const head = { id, to, by, because };
  const name = scope ?? '';
  const node = { name, uid: store.node(name)?.uid ?? uidOf(name, 1) };
  switch (verb) {
    case 'pause':
    case 'resume':
      return { ...head, verb };
    case 'release':
      return { ...head, verb, scope: releaseScope(name), forMs: forMs ?? 3_600_000 };
    case 'fence':
    case 'power-on':
    case 'rehearse':
      return { ...head, verb, node };
    case 'confirm-off':
      return { ...head, verb, node, checked: name, isDeviceWrong };
  }
}

function releaseScope(scope: string): Extract<Order, { verb: 'release' }>['scope'] {
  if (['all', 'cluster', ''].includes(scope)) return { kind: 'cluster' };
  const at = scope.indexOf('=');
  if (at === -1) return { kind: 'node', name: scope };
  return { kind: 'domain', label: scope.slice(0, at), value: scope.slice(at + 1) };
}
