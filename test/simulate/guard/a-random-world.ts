import * as fc from 'fast-check';
import type { Json } from './a-world.ts';

/** Documents of kind GuardScenario: small clusters in which much goes wrong. Every one can be read. */

const nodeName = fc.integer({ min: -2, max: 9 }).map((n) => (n > 0 ? `w${n}` : `m${1 - n}`));
const someNodes = fc.uniqueArray(nodeName, { minLength: 1, maxLength: 4 });
/** From when the guard has settled. Tenths of a second: nothing falls on the same instant by the grid alone. */
const instant = fc.integer({ min: 1_000, max: 7_000 }).map((n) => n * 100);
const span = fc.integer({ min: 1, max: 1_800 }).map((n) => n * 100);
const PHASES = ['decided', 'isolating', 'off-sent', 'proving', 'proven', 'tainted', 'untainting', 'on-sent', 'booting'];

/** The outlets of one machine are of one level: one of two supplies that is off leaves the machine on. */
const devices = fc
  .record({
    bmc: fc.constantFrom<Json | null>(null, {}, {}, { sharesPower: true }),
    pdus: fc.constantFrom(0, 0, 1, 2),
    pduLevel: fc.constantFrom(1, 2),
    hasFabric: fc.constantFrom(false, false, true),
  })
  .map(({ bmc, pdus, pduLevel: level, hasFabric }): readonly Json[] => [
    ...(hasFabric ? [{ kind: 'fabric' }] : []),
    ...(bmc === null && pdus > 0 ? [] : [{ kind: 'bmc', ...bmc }]),
    ...Array.from({ length: pdus }, () => ({ kind: 'pdu', level })),
  ]);

const pod = (name: string): fc.Arbitrary<Json> =>
  fc.record(
    {
      name: fc.constant(`${name}-{node}`),
      statefulSet: fc.constant(name),
      volumes: fc.constantFrom(0, 1, 2),
      priority: fc.constantFrom(0, 100),
      detaches: fc.constantFrom(true, true, true, false),
      finalizer: fc.constantFrom(false, false, false, true),
      tolerates: fc.constantFrom(false, false, false, true),
    },
    { requiredKeys: ['name', 'statefulSet'] },
  );
const pods = fc.tuple(pod('db'), fc.option(pod('cache'))).map((both) => both.filter((one) => one !== null));

const APART: Json = { 'node.kubernetes.io/exclude-disruption': '' };
const onNodes: fc.Arbitrary<Json> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ freeze: true }) },
  { weight: 2, arbitrary: fc.constant({ freeze: false }) },
  { weight: 3, arbitrary: fc.constant({ power: 'off' }) },
  { weight: 2, arbitrary: fc.constant({ power: 'on' }) },
  { weight: 2, arbitrary: fc.constantFrom({ kubelet: 'stop' }, { kubelet: 'start' }) },
  { weight: 1, arbitrary: fc.constantFrom({ announce: 'shutdown' }, { announce: 'reboot' }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { annotate: { 'nodewarden.dev/guard': 'skip' } },
      { annotate: { 'example.com/touched': '1' } },
      { cordon: true },
      { label: APART },
      { taint: { 'node.kubernetes.io/out-of-service': 'nodeshutdown' } },
      { taint: { 'node.kubernetes.io/out-of-service': null } },
    ),
  },
);
const network: fc.Arbitrary<Json> = fc.oneof(
  fc.record({ cut: someNodes, from: fc.constantFrom('api', 'all') }),
  fc.constant({ heal: 'all' }),
  fc.constantFrom({ switchDown: { zone: 'a' } }, { switchDown: { share: '40%' } }, { switchDown: { share: '70%' } }),
  fc.constantFrom('down', 'up', 'up', 'slow', 'stale').map((api) => ({ api })),
);
const fault = fc.oneof(
  fc.constantFrom<Json>(
    { says: 'off' },
    { says: 'on' },
    { fails: true },
    { hangs: true },
    { lies: true },
    { works: true },
  ),
  span.map((after) => ({ after })),
);
const faulty = fc.tuple(nodeName, fault).map(([node, how]) => ({ device: { node, ...how } }));
/** Long enough to lose the lease in the middle of something. */
const awkward = fc.constantFrom(15_000, 25_000, 50_000);
const guardAct = fc.oneof(
  fc.record({ kill: fc.constant(true), for: span }, { requiredKeys: ['kill'] }),
  fc.constant<Json>({ restart: true }),
  fc.record({ pause: fc.constant(true), for: fc.oneof(span, awkward) }),
  fc.record({ cutFromApi: fc.constant(true), for: fc.oneof(span, awkward) }),
);
const onGuard = fc
  .tuple(
    fc.constantFrom('g1', 'g2', 'leader', 'leader'),
    guardAct,
    fc.record({ atPhase: fc.constantFrom(...PHASES), after: fc.constantFrom(0, 15, 500, 3_000) }, { requiredKeys: [] }),
  )
  .map(([name, act, when]) => ({ guard: { name, ...act, ...('atPhase' in when ? when : {}) } }));
const order = fc
  .oneof(
    fc.record({ verb: fc.constantFrom('fence', 'power-on', 'confirm-off', 'rehearse'), node: nodeName }),
    fc.record({ verb: fc.constant('confirm-off'), node: nodeName, deviceIsWrong: fc.constant(true) }),
    fc.constantFrom<Json>({ verb: 'pause' }, { verb: 'resume' }, { verb: 'release', scope: 'cluster', for: '1h' }),
  )
  .map((one) => ({ order: one }));
const rare: fc.Arbitrary<Json> = fc.oneof(
  nodeName.map((node) => ({ deleteNode: node })),
  fc.constant({ deleteRecords: true }),
  fc
    .tuple(someNodes, fc.constantFrom(-3_600_000, -10_000, 5_000, 86_400_000))
    .map(([node, step]) => ({ clock: { node, step } })),
  fc.constantFrom('g1', 'g2').map((guard) => ({ clock: { guard, step: '1h' } })),
);

const event: fc.Arbitrary<Json> = fc
  .tuple(
    instant,
    fc.oneof(
      { weight: 8, arbitrary: fc.tuple(someNodes, onNodes).map(([node, what]) => ({ node, ...what })) },
      { weight: 2, arbitrary: network },
      { weight: 2, arbitrary: faulty },
      { weight: 3, arbitrary: onGuard },
      { weight: 1, arbitrary: order },
      { weight: 1, arbitrary: rare },
    ),
  )
  .map(([at, what]) => ({ at, ...what }));

const config = fc.record(
  {
    dryRun: fc.constantFrom(false, false, false, false, true),
    controlPlane: fc.constantFrom('never', 'oneAtATime'),
    nodes: fc.constant<Json>({ matchExpressions: [] }),
    deadAfter: fc.constantFrom('70s', '2m', '3m'),
    fenceWhen: fc.constantFrom('needed', 'always'),
    kubeletAnswers: fc.constantFrom('hold', 'ignore'),
    settle: fc.constantFrom('30s', '2m'),
    storm: fc.constantFrom<Json>({ coolDown: '1m' }, { maxUnhealthy: '50%', burst: { nodes: 5, within: '30s' } }),
    recovery: fc.constantFrom<Json>({ powerOn: false }, { stableFor: '10s' }, { perNodePerDay: 1 }),
    drainWait: fc.constantFrom('1m', '10m'),
    rate: fc.constantFrom<Json>({ maxInFlight: 1 }, { minInterval: '1s', maxPerHour: 20 }),
  },
  { requiredKeys: [] },
);
const guards = fc.constantFrom<readonly Json[]>(
  [{ name: 'g1' }, { name: 'g2' }],
  [
    { name: 'g1', on: 'm1' },
    { name: 'g2', on: 'w2' },
  ],
);

/** All machines have devices of one kind: which kinds there are is what matters, not who has which. */
export const aRandomWorld: fc.Arbitrary<Json> = fc
  .record({
    config,
    guards,
    events: fc.array(event, { minLength: 1, maxLength: 8 }),
    devices,
    pods,
    labels: fc.constantFrom<Json>({}, {}, APART),
    commandTakes: fc.constantFrom('3s', '3s', '30s'),
  })
  .map(({ devices: all, pods: some, labels, commandTakes, ...rest }) => ({
    ...rest,
    world: { duration: '28m', commandTakes },
    nodes: [
      { names: 'w[1-5]', zone: 'a', devices: all, pods: some },
      { names: 'w[6-9]', zone: 'b', labels, devices: all, pods: some },
      { names: 'm[1-3]', zone: 'b', controlPlane: true, devices: all, pods: some },
    ],
  }));
