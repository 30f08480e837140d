import { describe, expect, it } from 'vitest';
import type { HostSizes } from '../../src/config/margin.ts';
import { known } from '../../src/core/reading.ts';
import { load, NO_SIZES, SIZES } from './a-config.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

/** All but the one about pid.available, which nearly every configuration gets. */
function warnings(text: string, sizes = SIZES): readonly string[] {
  const said = load(text, sizes).warnings.filter(({ code }) => code !== 'no-pid-threshold');
  return said.map((warning) => warning.text);
}

describe('warnings', () => {
  it('say that naming one signal drops the other defaults, with what to add', () => {
    const said =
      'c.yaml:4: evictionHard: naming one signal drops the defaults of all others; add mergeDefaultEvictionSettings: true, or add the missing ones to evictionHard: nodefs.available: "10%", nodefs.inodesFree: "5%"';
    expect(warnings('evictionHard:\n  memory.available: 200Mi')).toEqual([said]);
    expect(warnings('mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 200Mi}')).toEqual([]);
    const off = 'evictionHard: {memory.available: 200Mi, nodefs.available: 0%, nodefs.inodesFree: 0%}';
    expect(warnings(off)).toEqual([]);
    const withImagefs = warnings('imagefs: {path: /images}\nevictionHard: {memory.available: 200Mi}');
    expect(withImagefs.join()).toContain('imagefs.available: "15%", imagefs.inodesFree: "5%"');
  });

  it('say that nothing is left that could evict', () => {
    expect(warnings('evictionHard: {}')).toEqual([
      'c.yaml:3: evictionHard: no threshold is left, so nothing is ever evicted under pressure',
    ]);
  });

  it('name a soft threshold below its hard one, with both values', () => {
    const soft = (amount: string) =>
      `evictionSoft: {memory.available: ${amount}}\nevictionSoftGracePeriod: {memory.available: 1m}\nevictionMaxPodGracePeriod: 60`;
    const said = (amount: string) => [
      `c.yaml:3: evictionSoft: memory.available ${amount} has no effect: it is not above the hard threshold 100Mi, which always acts first`,
    ];
    expect(warnings(soft('50Mi'))).toEqual(said('50Mi'));
    expect(warnings(soft('100Mi'))).toEqual(said('100Mi'));
    expect(warnings(soft('101Mi'))).toEqual([]);
    // 1 % of 8 GiB is 82 MiB; without the host nobody knows.
    expect(warnings(soft('1%'))).toEqual(said('1%'));
    expect(warnings(soft('1%'), NO_SIZES)).toEqual([]);
  });

  it('say that soft evictions give no grace period at all', () => {
    const text = 'evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}';
    expect(warnings(text)).toEqual([
      'c.yaml:3: evictionSoft: evictionMaxPodGracePeriod is 0, so pods evicted by a soft threshold get no grace period (SIGKILL 2 s after SIGTERM); set it, for example to 60',
    ]);
  });

  it('say that no threshold guards the process IDs, with a value for this host', () => {
    const said = (text: string, sizes = SIZES) =>
      load(text, sizes)
        .warnings.map((warning) => warning.text)
        .join();
    expect(said('')).toBe(
      'evictionHard: no threshold for pid.available, so a fork bomb is not stopped; add pid.available: "10%" (on this host 3276 of 32768) together with mergeDefaultEvictionSettings: true, which keeps the defaults',
    );
    expect(said('', NO_SIZES)).not.toContain('on this host');
    expect(said('mergeDefaultEvictionSettings: true\nevictionHard: {pid.available: 10%}')).toBe('');
  });

  it('judge a node that is a cgroup by its limits, and not at all if these are unknown', () => {
    const text = 'cgroupRoot: /shop\nevictionMinimumReclaim: {memory.available: 1Gi}';
    const bounded = { ...SIZES, node: () => ({ memoryBytes: 1024 ** 3, pids: 512, limitAbove: known(null) }) };
    expect(warnings(text, bounded)).toEqual([
      'c.yaml:4: evictionMinimumReclaim: memory.available 1Gi above its evictionHard threshold is more than the capacity of the cgroup /shop (1 GiB): once met, it stays met and pod after pod is evicted',
    ]);
    expect(
      load(text, bounded)
        .warnings.map((warning) => warning.text)
        .join(),
    ).toContain('(on the cgroup /shop 51 of 512)');
    expect(
      warnings(text, { ...bounded, node: () => ({ memoryBytes: 2 * 1024 ** 3, pids: null, limitAbove: known(null) }) }),
    ).toEqual([]);
    expect(warnings(text)).toEqual([]);
  });

  it('name a minimum reclaim that can never be reached, once per signal', () => {
    const text = [
      'evictionMinimumReclaim: {memory.available: 8Gi, nodefs.available: 91%}',
      'evictionSoft: {memory.available: 1Gi}',
      'evictionSoftGracePeriod: {memory.available: 1m}',
      'evictionMaxPodGracePeriod: 60',
    ].join('\n');
    const said = warnings(text);
    expect(said).toHaveLength(2);
    expect(said[0]).toBe(
      'c.yaml:3: evictionMinimumReclaim: memory.available 8Gi above its evictionHard threshold is more than the capacity of this host (8 GiB): once met, it stays met and pod after pod is evicted',
    );
    expect(warnings(text, NO_SIZES)).toEqual([]);
    expect(warnings('evictionMinimumReclaim: {memory.available: 1Gi}')).toEqual([]);
  });

  it('name amounts that are hardly meant', () => {
    const of = (line: string) =>
      warnings(`mergeDefaultEvictionSettings: true\n${line}`).map((text) => text.replace(/^.*?: /, ''));
    expect(of('evictionHard: {memory.available: 100m}')).toEqual([
      'evictionHard: memory.available 100m is 0.1 bytes (m is a thousandth); was Mi or Gi meant?',
    ]);
    expect(of('evictionHard: {memory.available: "300", pid.available: 500m}')).toEqual([
      'evictionHard: memory.available 300 is 300 bytes; was Mi or Gi meant?',
      'evictionHard: pid.available 500m is 0.5 (m is a thousandth)',
    ]);
    expect(of('evictionMinimumReclaim: {nodefs.available: 500m}')).toEqual([
      'evictionMinimumReclaim: nodefs.available 500m is 0.5 bytes (m is a thousandth); was Mi or Gi meant?',
    ]);
    expect(of('evictionHard: {memory.available: 1Ki, pid.available: "1", nodefs.available: "0"}')).toEqual([]);
  });

  it('name thresholds that are never met, or always met', () => {
    const all = 'mergeDefaultEvictionSettings: true\nevictionHard: ';
    expect(warnings(`${all}{memory.available: 0.0%}`)).toEqual([
      'c.yaml:4: evictionHard: memory.available 0% is never met; to switch it off, write "0%"',
    ]);
    expect(warnings(`${all}{memory.available: 100.0%}`)).toEqual([
      'c.yaml:4: evictionHard: memory.available 100% is the whole capacity of this host (8 GiB): it is met as soon as anything is used',
    ]);
    expect(warnings(`${all}{memory.available: 9Gi}`).join()).toContain(
      '9Gi is more than the whole capacity of this host',
    );
  });

  it.each(['evictionHard', 'evictionSoft'])('name "100%%" in %s, which is no threshold', (field) => {
    const text = `mergeDefaultEvictionSettings: true\n${field}: {memory.available: "100%", nodefs.available: "0%"}`;
    expect(warnings(text)).toContain(
      `c.yaml:4: ${field}: memory.available 100% is no threshold, as in the kubelet; to switch it off on purpose, write "0%"`,
    );
  });

  it.each([
    ['evictionSoftGracePeriod: {memory.available: 1m}', 'evictionSoftGracePeriod: memory.available has no effect'],
    ['evictionMinimumReclaim: {pid.available: "5"}', 'evictionMinimumReclaim: pid.available has no effect'],
    [
      'mergeDefaultEvictionSettings: true\nevictionHard: {containerfs.available: 5%}',
      'containerfs.available has no effect: containerfs thresholds are always copied',
    ],
    [
      'mergeDefaultEvictionSettings: true\nevictionHard: {imagefs.available: 5%}',
      'imagefs.available has no effect: imagefs.path is not set',
    ],
    [
      'mergeDefaultEvictionSettings: true\nevictionHard: {allocatableMemory.available: 5%}',
      'allocatableMemory.available has no effect in mode standalone',
    ],
    ['kubernetes: {kubeconfig: /k}', 'kubernetes: has no effect in mode standalone'],
    [
      'reclaimCommands: [{signal: containerfs.available, command: [/bin/true]}]',
      'reclaimCommands: containerfs.available has no threshold',
    ],
    ['evictionPressureTransitionPeriod: -5s', 'with -5s no condition is ever reported'],
    [
      'systemReserved: {memory: 5Gi}\nkubeReserved: {memory: 3Gi}',
      'together (8 GiB) exceed the capacity of this host (8 GiB)',
    ],
  ])('report what has no effect, or stops a kubelet: %s', (text, part) => {
    const said = warnings(text);
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(part);
  });

  it('about memory are not given for a node that is smaller than the machine', () => {
    expect(warnings('cgroupRoot: /small\nevictionMinimumReclaim: {memory.available: 8Gi}')).toEqual([]);
  });
});

describe('warnings about shutdown', () => {
  const list = 'shutdownGracePeriodByPodPriority';

  it('do not deny beside a kubelet that its grace periods stop pods', () => {
    const periods = 'shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s';
    expect(warnings(`mode: kubelet\nkubernetes: {kubeconfig: /k}\n${periods}`)).toEqual([]);
  });

  const entry = (priority: number, seconds: number) =>
    `{priority: ${priority}, shutdownGracePeriodSeconds: ${seconds}}`;

  it.each([
    [
      `${list}: [${entry(0, 5)}, ${entry(0, 9)}]`,
      [
        `c.yaml:3: ${list}: priority 0 is listed twice; pods of exactly that priority belong to the first phase, higher ones to the last`,
      ],
    ],
    [
      `${list}: [${entry(0, 0)}]`,
      [`c.yaml:3: ${list}: pods of priority 0 and above get 0 s: the shutdown does not wait for them`],
    ],
    [
      `${list}: [${entry(5, 1)}]`,
      [`c.yaml:3: ${list}: the lowest priority is 5; pods below it are stopped in that phase too`],
    ],
    [
      'shutdownGracePeriod: 30s',
      [
        'c.yaml:3: shutdownGracePeriod: critical pods get 0 s of it, and the shutdown does not wait for them; add shutdownGracePeriodCriticalPods: 10s',
      ],
    ],
    [
      'shutdownGracePeriod: 9s\nshutdownGracePeriodCriticalPods: 9s',
      ['c.yaml:4: shutdownGracePeriodCriticalPods: takes all of shutdownGracePeriod, so ordinary pods get 0 s'],
    ],
    [
      'shutdownGracePeriod: 30.9s\nshutdownGracePeriodCriticalPods: 10.5s',
      [
        'c.yaml:3: shutdownGracePeriod: phases last whole seconds, so 20.4 s become 20 s',
        'c.yaml:4: shutdownGracePeriodCriticalPods: phases last whole seconds, so 10.5 s become 10 s',
      ],
    ],
    [
      `shutdownGracePeriod: 9s\nshutdownGracePeriodCriticalPods: 3s\n${list}: []`,
      [`c.yaml:5: ${list}: the empty list has no effect; shutdownGracePeriod applies`],
    ],
    ['shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s', []],
    ['shutdownGracePeriod: 1h\nshutdownGracePeriodCriticalPods: 10s', []],
    [
      'shutdownGracePeriod: 48h\nshutdownGracePeriodCriticalPods: 10s',
      [
        'c.yaml:3: shutdownGracePeriod: all phases together last 48h0m0s: logind lets every program with a delay lock hold up shutdown and suspend for that long',
      ],
    ],
    [
      `${list}: [${entry(0, 60_000)}, ${entry(9, 1)}]`,
      [
        `c.yaml:3: ${list}: all phases together last 16h40m1s: logind lets every program with a delay lock hold up shutdown and suspend for that long`,
      ],
    ],
  ])('of %s', (text, said) => {
    expect(warnings(text)).toEqual(said);
  });
});

describe("warnings that the kernel's OOM killer acts first, because processes cannot get all that counts as available", () => {
  const beyond = { reserveBytes: 48 * MIB, kernelBytes: 42 * MIB, hugePagesBytes: 0 };
  const sizes: HostSizes = { ...SIZES, beyondReach: known(beyond) };
  const FIRST = 'mergeDefaultEvictionSettings: true\nevictionHard:\n  memory.available: ';
  const said = (text: string, of = sizes): readonly string[] =>
    load(text, of).warnings.flatMap((warning) => (warning.code === 'kernel-first' ? [warning.text] : []));

  it('give both figures, and a threshold that avoids the warning', () => {
    const figures =
      'since the working set counts 90 MiB (48 MiB that the kernel keeps free, 42 MiB of its own) as available, which no process can get';
    const todo = 'Set memoryAvailable: reclaimable, which leaves it out, or a threshold of at least 190Mi';
    expect(said(`${FIRST}100Mi`)).toEqual([
      `c.yaml:5: evictionHard: memory.available 100Mi: the kernel's OOM killer may act first, ${figures}. ${todo}`,
    ]);
    expect(said(`${FIRST}90Mi`)[0]).toContain("90Mi: the kernel's OOM killer acts first, ");
    expect(said(`${FIRST}190Mi`)).toEqual([]);
    expect(said(`${FIRST}100Mi\nmemoryAvailable: reclaimable`)).toEqual([]);
  });

  it('cover the default, a percentage, a soft threshold and huge pages', () => {
    expect(said('')[0]).toMatch(/^evictionHard: memory\.available 100Mi: the kernel's OOM killer may act first/);
    expect(said(`${FIRST}1%`)[0]).toContain('memory.available 1%: ');
    const soft = 'evictionSoft: {memory.available: 110Mi}\nevictionSoftGracePeriod: {memory.available: 1m}';
    expect(said(soft).map((text) => text.replace(/: memory.*/, ''))).toEqual([
      'evictionHard',
      'c.yaml:3: evictionSoft',
    ]);
    const pool = { ...sizes, beyondReach: known({ ...beyond, hugePagesBytes: 512 * MIB }) };
    expect(said(`${FIRST}500Mi`, pool)[0]).toContain(
      '602 MiB (48 MiB that the kernel keeps free, 42 MiB of its own, 512 MiB of huge pages)',
    );
  });

  it('recommend only the threshold beside a kubelet, and not another formula than its own', () => {
    const beside = `kubernetes: {kubeconfig: /k}\nmode: kubelet\n${FIRST}100Mi`;
    expect(said(beside)[0]).toMatch(/which no process can get\. Set a threshold of at least 190Mi$/);
    const other = 'memoryAvailable: the kubelet counts by the working set, so it may evict for memory first';
    expect(warnings(`${beside}\nmemoryAvailable: reclaimable`, sizes).join()).toContain(other);
    expect(warnings(beside, sizes).join()).not.toContain(other);
  });

  it('are not given for a cgroup with a limit, which pays for its kernel memory, nor without the figures', () => {
    const node = `cgroupRoot: /workload\n${FIRST}100Mi`;
    const bounded = (memoryBytes: number | null) => ({
      ...sizes,
      node: () => ({ memoryBytes, pids: null, limitAbove: known(null) }),
    });
    expect(said(node, bounded(GIB))).toEqual([]);
    expect(said(node, bounded(null))).toEqual([]);
    // Without a limit of its own its memory is the machine's.
    expect(said(node, bounded(sizes.memoryBytes))).toHaveLength(1);
    expect(said(`${FIRST}100Mi`, NO_SIZES)).toEqual([]);
  });
});

describe("warnings that the kernel's OOM killer acts first, because a cgroup above the node has a lower limit", () => {
  const FIRST = 'mergeDefaultEvictionSettings: true\nevictionHard:\n  memory.available: ';
  const below = (path: string, bytes: number, capacityBytes = 8 * GIB): HostSizes => ({
    ...SIZES,
    node: () => ({ memoryBytes: capacityBytes, pids: null, limitAbove: known({ path, bytes }) }),
  });
  const said = (text: string, of: HostSizes): readonly string[] =>
    load(text, of).warnings.flatMap((warning) => (warning.code === 'kernel-first' ? [warning.text] : []));
  const says = (path: string, limit: string, todo: string, capacity = '8 GiB') =>
    `the kernel's OOM killer may act first, since the node lies in the cgroup ${path}, which is limited to ${limit} of memory, and counts ${capacity} as its capacity. ${todo}`;

  it.each([
    [
      'cgroupRoot: /shop/web',
      below('/shop', GIB),
      says('/shop', '1 GiB', 'Set cgroupRoot: /shop, or limit /shop/web itself to at most 1 GiB'),
    ],
    [
      'cgroupRoot: /shop/web',
      below('/shop', GIB, 2 * GIB),
      says('/shop', '1 GiB', 'Set cgroupRoot: /shop, or limit /shop/web itself to at most 1 GiB', '2 GiB'),
    ],
    ['cgroupRoot: /web', below('/', GIB), says('/', '1 GiB', 'Limit /web itself to at most 1 GiB')],
    [
      'memoryAvailable: reclaimable',
      below('/', GIB),
      says('/', '1 GiB', 'Set cgroupRoot to a cgroup with a limit of its own of at most 1 GiB'),
    ],
    ['kubernetes: {kubeconfig: /k}\nmode: kubelet', below('/', GIB), says('/', '1 GiB', 'Raise that limit')],
  ])('name the cgroup, its limit and what to do: %s', (text, sizes, why) => {
    expect(said(`${text}\n${FIRST}100Mi`, sizes).map((one) => one.replace(/^.*? 100Mi: /, ''))).toEqual([why]);
  });

  it('are not given if the threshold is met before, or the limit is not lower', () => {
    const text = `cgroupRoot: /shop/web\n${FIRST}100Mi`;
    expect(said(text, below('/shop', 8 * GIB - 60 * MIB))).toHaveLength(1);
    expect(said(text, below('/shop', 8 * GIB - 50 * MIB))).toEqual([]);
    expect(said(text, below('/shop', 9 * GIB))).toEqual([]);
    expect(said(`cgroupRoot: /shop/web\n${FIRST}1Mi`, below('/shop', 8 * GIB))).toEqual([]);
  });
});
