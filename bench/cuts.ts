// `npm run bench:cuts`, as root: what a thousand cut connections to the API server cost the agent, and whether it still has
// every pod as the server has it. Its pauses grow to 15 s by intent, so that its time passes BENCH_HURRY times as fast.
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { isObject, parseJson } from '../src/core/shape.ts';
import { sleep } from '../src/host/clock.ts';
import { NODE } from '../test/kube/pod-store.ts';
import { clock, until } from '../test/lab/scene.ts';
import { type KubeNode, openKubeNode, podObject } from './footprint/kube-node.ts';
import { memoryOf } from './footprint/of.ts';
import { startHurried } from './footprint/peers.ts';
import { atLeast, atMost, type Bar, barsTable, machine, sayMachine, writeResult } from './result.ts';

const { values } = parseArgs({
  options: {
    cuts: { type: 'string', default: '1000' },
    pods: { type: 'string', default: '110' },
    times: { type: 'string', default: '20' },
  },
});
const [cuts, pods, times] = [Number(values.cuts), Number(values.pods), Number(values.times)];

/** After its return, in our time: in the middle of its handshake, of a list, or of a watch. */
const MOST_REST_MS = 60;
const BACK_MS = 60_000;
/** Each that many cuts the server forgets what was, as etcd is compacted. */
const FORGETS_EVERY = 100;
const REPLACED_EVERY = 3;
const MINUTE_MS = 60_000 / times;

type Cut = {
  readonly watches: number;
  readonly connections: number;
  readonly minutes: number;
  readonly lists: number;
  readonly mostListsAMinute: number;
  readonly runtimeLooks: number;
  readonly rssMiB: readonly number[];
  readonly differs: readonly string[];
};

async function cutAll(node: KubeNode, pid: number, stateDirectory: string): Promise<Cut> {
  const { api, runtime } = node;
  const startMs = clock.monoMs();
  const lists = countedByMinute(() => api.store.counts().lists);
  const rssMiB: number[] = [];
  let [watches, connections, tries, priority] = [0, 0, 0, 0];
  while (watches < cuts) {
    await until('the agent connects again', () => (api.sockets() > 0 ? true : null), BACK_MS);
    await sleep(clock, Math.random() * MOST_REST_MS);
    lists.look();
    tries += 1;
    change(node, tries, () => (priority += 1));
    connections += api.sockets();
    if (api.store.counts().open > 0) watches += 1;
    if (tries % FORGETS_EVERY === 0) api.store.forget();
    api.breakAll();
    change(node, tries + 1, () => (priority += 1));
    if (tries % 50 === 0) rssMiB.push(memoryOf(pid)[0]?.rssMiB ?? Number.NaN);
    await sleep(clock, 1);
  }
  const minutes = (clock.monoMs() - startMs) / MINUTE_MS;
  const mostListsAMinute = lists.most();
  const { lists: listed } = api.store.counts();
  const file = path.join(stateDirectory, 'api-pods.json');
  const differsNow = (): readonly string[] => differencesOf(api.store.of(NODE), file);
  await until('the agent has what the server has', () => (differsNow().length === 0 ? true : null), BACK_MS).catch(
    () => undefined,
  );
  rssMiB.push(memoryOf(pid)[0]?.rssMiB ?? Number.NaN);
  const runtimeLooks = runtime.calls.filter((call) => call === 'ListContainers').length;
  return {
    watches,
    connections,
    minutes,
    lists: listed,
    mostListsAMinute,
    runtimeLooks,
    rssMiB,
    differs: differsNow(),
  };
}

/** A pod is another one, or goes and comes back. */
function change({ api }: KubeNode, tries: number, next: () => number): void {
  const n = 1 + (tries % pods);
  if (tries % REPLACED_EVERY === 0) api.store.remove(`shop/pod-${n}`);
  api.store.put(podObject(n, next()));
}

/** How often within a minute of the agent's, at most. */
function countedByMinute(count: () => number): { readonly look: () => void; readonly most: () => number } {
  const seen: { readonly atMs: number; readonly count: number }[] = [];
  let most = 0;
  const look = (): void => {
    const now = { atMs: clock.monoMs(), count: count() };
    while (seen[0] !== undefined && now.atMs - seen[0].atMs > MINUTE_MS) seen.shift();
    most = Math.max(most, now.count - (seen[0] ?? now).count);
    seen.push(now);
  };
  return { look, most: () => most };
}

/** By what the agent keeps for its next start: the pods that it lacks, has too many, or has as they were. */
function differencesOf(objects: readonly object[], file: string): readonly string[] {
  const kept = parseJson(fs.readFileSync(file, 'utf8'));
  const own = isObject(kept) && Array.isArray(kept['pods']) ? kept['pods'] : [];
  const ofAgent = new Set(own.map(({ declared }) => `${declared.uid} ${declared.priority}`));
  const ofServer = new Set(
    objects.map(
      (object) =>
        `${Reflect.get(Reflect.get(object, 'metadata'), 'uid')} ${Reflect.get(Reflect.get(object, 'spec'), 'priority')}`,
    ),
  );
  return [...[...ofServer].filter((pod) => !ofAgent.has(pod)), ...[...ofAgent].filter((pod) => !ofServer.has(pod))];
}

function barsOf({ watches, mostListsAMinute, runtimeLooks, rssMiB, differs }: Cut): readonly Bar[] {
  const half = Math.floor(rssMiB.length / 2);
  const mean = (some: readonly number[]): number => some.reduce((sum, one) => sum + one, 0) / some.length;
  const grownMiB = mean(rssMiB.slice(-3)) - mean(rssMiB.slice(Math.max(0, half - 3), half));
  return [
    atLeast('watches cut', cuts, watches, ''),
    atLeast('looks at the runtime meanwhile', cuts / 10, runtimeLooks, ''),
    atMost('RSS, at most', 95, Math.max(...rssMiB), 'MiB'),
    atMost('RSS grown in the second half', 5, grownMiB, 'MiB'),
    atMost('lists within a minute, at most', 9, mostListsAMinute, ''),
    atMost('pods lost, left over or not as the server has them', 0, differs.length, ''),
  ];
}

async function main(): Promise<void> {
  const on = machine();
  console.log(sayMachine(on));
  const node = await openKubeNode(pods);
  try {
    const agent = await startHurried(node.config, times);
    try {
      await until('the agent watches', () => (node.api.store.counts().open > 0 ? true : null));
      const cut = await cutAll(node, agent.pid, agent.stateDirectory);
      const bars = barsOf(cut);
      console.log(
        `${cut.connections} connections cut in ${cut.minutes.toFixed(0)} minutes of the agent's, ${cut.lists} lists; RSS ${cut.rssMiB.map((one) => one.toFixed(0)).join(', ')} MiB`,
      );
      console.log(barsTable(bars));
      writeResult('cuts', { on, times, pods, ...cut, bars });
    } finally {
      await agent.stop();
    }
  } finally {
    await node.close();
  }
}
await main();
