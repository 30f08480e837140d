import { describe, expect, it } from 'vitest';
import { known, unknown } from '../../../src/core/reading.ts';
import { neededTotalMs } from '../../../src/core/shutdown/plan.ts';
import { readState } from '../../../src/core/state/read.ts';
import { aPod } from '../../a.ts';
import { aCore, aShutdownConfig, CANCELLED, db, LOCK, PREPARING, said, web } from './a-shutdown.ts';

const CONFIG = aShutdownConfig({ tiers: { announceMs: 2_000, confirmMs: 10_000 } });
const ANNOUNCED = { kind: 'announced', decision: 'boot-1', detail: 'the node is cordoned and tainted' } as const;
const START = { shutdownEvents: [LOCK, PREPARING] };
const BY_KUBELET = { shutdownEvents: [LOCK, { ...PREPARING, byKubelet: true }] } as const;
const LET_GO = { kind: 'kubelet-released' } as const;
const STOPPED = { kind: 'stopped-without-signal', leftMs: 80_000 } as const;
const daemon = aPod({ name: 'daemon', leaves: 'with-agent' });
const etcd = aPod({ name: 'etcd', leaves: 'last' });
const left = (pods: readonly string[], volumes: readonly string[] = []) => known({ pods, volumes });
const GONE = left([]);

describe('a shutdown in two tiers', () => {
  it('requests from logind the announcement, the phases and the confirmation', () => {
    expect(neededTotalMs(CONFIG)).toBe(47_000);
    expect(neededTotalMs({ ...CONFIG, phases: [] })).toBe(0);
  });

  it('announces first, and stops nothing before that is answered', () => {
    const { look } = aCore(CONFIG, [web, db]);
    const first = look(0, START);
    expect(said(first)).toEqual(['announce-shutdown']);
    expect(first.next.afterMs).toBe(2_000);
    expect(said(look(500))).toEqual([]);
    const then = look(700, { shutdownEvents: [ANNOUNCED] });
    expect(said(then)).toEqual(['stop web in 1 for 20 s']);
    expect(then.reasons).toContainEqual({ code: 'shutdown-announced', detail: ANNOUNCED.detail });
    // The phase has its whole time from then on.
    expect(then.state.shutdown).toMatchObject({ phaseEndsMs: 20_700 });
  });

  it('begins its phases without an answer after 2 s', () => {
    const { look } = aCore(CONFIG, [web]);
    look(0, START);
    expect(said(look(1_999))).toEqual([]);
    const late = look(2_000);
    expect(said(late)).toEqual(['stop web in 1 for 20 s']);
    expect(late.reasons).toContainEqual({ code: 'shutdown-announced', detail: null });
    expect(said(look(2_100, { shutdownEvents: [ANNOUNCED] }))).toEqual([]);
  });

  it("leaves pods that stay bound to the agent's own stop", () => {
    const { look } = aCore(CONFIG, [web, daemon, etcd]);
    look(0, START);
    expect(said(look(1, { shutdownEvents: [ANNOUNCED] }))).toEqual(['stop web in 1 for 20 s']);
  });

  it('stops a pod anew that a cancelled shutdown was still stopping when its phase began, if that stop failed', () => {
    const { look, ended } = aCore(CONFIG, [web, db]);
    const failed = (atMs: number) =>
      ({ of: ended(web, atMs).of, atMs, kind: 'dropped', because: 'not-deleted' }) as const;
    look(0, START);
    look(1, { shutdownEvents: [ANNOUNCED] });
    look(1_000, { shutdownEvents: [CANCELLED] });
    const { decisions } = look(2_000, { shutdownEvents: [PREPARING] });
    expect(said(look(2_001, { shutdownEvents: [{ ...ANNOUNCED, decision: decisions[0]?.id ?? '' }] }))).toEqual([]);
    // It waits for the pods if they were not read.
    expect(said(look(5_001, { outcomes: [failed(5_001)], pods: unknown('not-asked', 'pods', '') }))).toEqual([]);
    expect(said(look(5_002))).toEqual(['stop web in 1 for 16.999 s']);
    // Its own stop is not repeated.
    expect(said(look(6_000, { outcomes: [failed(6_000)] }))).toEqual(['stop db in 2 for 10 s']);
  });

  it('does not stop a pod anew that is gone', () => {
    const { look, ended } = aCore(CONFIG, [web, db]);
    look(0, START);
    look(1, { shutdownEvents: [ANNOUNCED] });
    look(1_000, { shutdownEvents: [CANCELLED] });
    const { decisions } = look(2_000, { shutdownEvents: [PREPARING] });
    look(2_001, { shutdownEvents: [{ ...ANNOUNCED, decision: decisions[0]?.id ?? '' }] });
    const gone = { of: ended(web, 5_000).of, atMs: 5_000, kind: 'dropped', because: 'gone' } as const;
    expect(said(look(5_000, { outcomes: [gone], pods: known([db]) }))).toEqual(['stop db in 2 for 10 s']);
  });

  it('holds the lock until the API shows that what it stopped is gone', () => {
    const { look, ended } = aCore(CONFIG, [web]);
    look(0, START);
    look(1, { shutdownEvents: [ANNOUNCED] });
    const over = look(5_000, { outcomes: [ended(web, 5_000)], unconfirmed: left(['shop/web']) });
    expect(said(over)).toEqual([]);
    expect(over.state.shutdown).toMatchObject({ kind: 'stopping', wait: { kind: 'confirm' } });
    expect(readState(JSON.parse(JSON.stringify(over.state)))).toEqual(over.state);
    expect(said(look(6_000, { unconfirmed: left(['shop/web']) }))).toEqual([]);
    const gone = look(6_300, { unconfirmed: GONE });
    expect(said(gone)).toEqual(['release-lock all-phases-done']);
    expect(gone.reasons).toContainEqual({ code: 'shutdown-confirmed', tookMs: 1_300, left: { pods: [], volumes: [] } });
  });

  it.each([
    ['pods for what the phases did not use and 10 s', left(['shop/web']), 47_000],
    ['what it cannot ask for 10 s', unknown('unreadable', 'the API server', 'it is away'), 15_000],
    ['volumes alike', left([], ['csi^1']), 47_000],
  ] as const)('waits for %s', (_, unconfirmed, untilMs) => {
    const { look, ended } = aCore(CONFIG, [web]);
    look(0, START);
    look(0, { shutdownEvents: [ANNOUNCED] });
    look(5_000, { outcomes: [ended(web, 5_000)], unconfirmed });
    expect(said(look(untilMs - 1, { unconfirmed }))).toEqual([]);
    expect(said(look(untilMs, { unconfirmed }))).toEqual(['release-lock all-phases-done']);
  });

  it('waits 10 s for pods if the phases have used all of their time', () => {
    const { look } = aCore(CONFIG, [db, web]);
    look(0, START);
    look(0, { shutdownEvents: [{ ...ANNOUNCED }] });
    const unconfirmed = left(['shop/web']);
    const looks = [20_000, 30_000, 35_000].map((atMs) => look(atMs, { unconfirmed }));
    const began = looks.find(
      ({ state }) => state.shutdown.kind === 'stopping' && state.shutdown.wait.kind === 'confirm',
    );
    expect(began).toBeDefined();
    expect(said(look(46_999, { unconfirmed }))).toEqual([]);
    expect(said(look(47_000, { unconfirmed }))).toEqual(['release-lock all-phases-done']);
  });

  it('shrinks each part if logind grants less, and ends before logind continues', () => {
    const { look } = aCore(CONFIG, [web]);
    look(0, { shutdownEvents: [{ kind: 'lock-granted', delayMaxMs: 25_500 }, PREPARING] });
    // 23.5 of 47 s: half of each.
    expect(look(1_000).state.shutdown).toMatchObject({
      mustEndMs: 23_500,
      phaseEndsMs: 18_500,
      confirm: { ms: 5_000 },
    });
  });

  it('stops with the agent everything that still runs, static pods in the last phase', () => {
    const { look, ended } = aCore(CONFIG, [daemon, etcd, db]);
    look(0, START);
    look(1, { shutdownEvents: [ANNOUNCED], pods: known([daemon, etcd]) });
    expect(look(2, { unconfirmed: GONE }).state.shutdown.kind).toBe('released');
    const second = look(1_000, { shutdownEvents: [STOPPED] });
    expect(said(second)).toEqual(['stop daemon in 1 for 20 s']);
    expect(second.decisions).toMatchObject([{ tier: 'stop' }]);
    expect(said(look(2_000, { outcomes: [ended(daemon, 2_000)] }))).toEqual(['stop db in 2 for 10 s']);
    expect(said(look(3_000, { outcomes: [ended(db, 3_000)] }))).toEqual(['stop etcd in 3 for 5 s']);
    expect(said(look(4_000, { outcomes: [ended(etcd, 4_000)] }))).toEqual(['release-lock all-phases-done']);
  });

  it('stops them in its own phases, whatever is configured since', () => {
    const { look, state } = aCore(CONFIG, [daemon]);
    look(0, START);
    look(1, { shutdownEvents: [ANNOUNCED], unconfirmed: GONE });
    const released = state();
    expect(released.shutdown.kind).toBe('released');
    expect(readState(JSON.parse(JSON.stringify(released)))).toEqual(released);
    const now = aCore({ ...CONFIG, phases: [] }, [daemon, db], released);
    expect(said(now.look(1_000, { shutdownEvents: [STOPPED] }))).toEqual(['stop daemon in 1 for 20 s']);
  });

  it('starts over with all pods if the agent is stopped in the middle of a phase', () => {
    const { look } = aCore(CONFIG, [web, db, daemon]);
    look(0, START);
    look(0, { shutdownEvents: [ANNOUNCED] });
    const second = look(5_000, { shutdownEvents: [STOPPED] });
    // web has been told.
    expect(said(second)).toEqual(['stop daemon in 1 for 20 s']);
    expect(second.reasons).toContainEqual(
      expect.objectContaining({ code: 'shutdown-phase-over', running: ['uid-web'] }),
    );
  });

  it('stops nothing while the kubelet does, and waits for it as long as logind does', () => {
    const { look } = aCore(CONFIG, [web, daemon]);
    const first = look(0, BY_KUBELET);
    expect(first.decisions).toMatchObject([{ kind: 'announce-shutdown', byKubelet: true }]);
    const unconfirmed = left(['shop/web']);
    expect(said(look(1, { shutdownEvents: [ANNOUNCED], unconfirmed }))).toEqual([]);
    expect(said(look(300_000, { unconfirmed }))).toEqual([]);
    // It lets go: its last words to the API are waited for.
    const letGo = look(301_000, { shutdownEvents: [LET_GO], unconfirmed });
    expect(said(letGo)).toEqual([]);
    expect(readState(JSON.parse(JSON.stringify(letGo.state)))).toEqual(letGo.state);
    expect(said(look(310_999, { unconfirmed }))).toEqual([]);
    expect(said(look(311_000, { unconfirmed }))).toEqual(['release-lock all-phases-done']);
    expect(said(look(312_000, { shutdownEvents: [STOPPED] }))).toEqual([
      'stop web in 1 for 20 s',
      'stop daemon in 1 for 20 s',
    ]);
  });

  it('waits after the kubelet for what uses a volume, as long as logind does', () => {
    const { look } = aCore(CONFIG, [web]);
    look(0, BY_KUBELET);
    const unconfirmed = left([], ['csi^1']);
    look(1, { shutdownEvents: [ANNOUNCED, LET_GO], unconfirmed });
    expect(said(look(597_999, { unconfirmed }))).toEqual([]);
    expect(said(look(598_000, { unconfirmed }))).toEqual(['release-lock all-phases-done']);
  });

  it('announces itself even if the kubelet releases its lock before the answer', () => {
    const { look } = aCore(CONFIG, [web]);
    look(0, BY_KUBELET);
    look(500, { shutdownEvents: [LET_GO] });
    const { detail } = ANNOUNCED;
    expect(look(700, { shutdownEvents: [ANNOUNCED] }).reasons).toContainEqual({ code: 'shutdown-announced', detail });
  });

  it('does not attribute its own stops to a kubelet that releases its lock meanwhile', () => {
    const { look } = aCore(CONFIG, [web]);
    look(0, BY_KUBELET);
    look(1, { shutdownEvents: [STOPPED] });
    expect(look(2, { shutdownEvents: [LET_GO] }).state.shutdown).not.toHaveProperty('byKubelet');
  });

  it.each([
    ['before the first phase', []],
    ['after the last one', [ANNOUNCED]],
  ])('undoes a shutdown that is cancelled %s', (_, shutdownEvents) => {
    const { look } = aCore(CONFIG, []);
    look(0, START);
    look(1, { shutdownEvents, unconfirmed: left(['shop/web']) });
    const cancelled = look(1_000, { shutdownEvents: [CANCELLED], unconfirmed: left(['shop/web']) });
    expect(said(cancelled)).toEqual(['undo-stops']);
    expect(cancelled.reasons.map(({ code }) => code)).not.toContain('shutdown-phase-over');
    // What was asked for before is answered late.
    expect(look(1_100, { shutdownEvents: [ANNOUNCED, LET_GO] }).state.shutdown.kind).toBe('armed');
  });

  it('is not begun by the late answer for one that was cancelled', () => {
    const { look } = aCore(CONFIG, [web]);
    look(0, START);
    look(100, { shutdownEvents: [CANCELLED] });
    look(200, { shutdownEvents: [PREPARING, ANNOUNCED] });
    expect(said(look(300, { shutdownEvents: [ANNOUNCED] }))).toEqual([]);
    expect(said(look(400, { shutdownEvents: [{ ...ANNOUNCED, decision: 'boot-3' }] }))).toEqual([
      'stop web in 1 for 20 s',
    ]);
  });

  it('stops the pods of one controller three times, whatever their names', () => {
    const born = (name: string, seconds: number) =>
      aPod({ name, ownerKey: 'ReplicaSet/web', startedAtWallMs: 1_800_000_000_000 + seconds * 1_000 });
    const { look } = aCore(CONFIG, [web]);
    const at = (seconds: number) => ({ wallMs: 1_800_000_000_000 + seconds * 1_000 });
    look(0, { ...START, ...at(0) });
    look(0, { shutdownEvents: [ANNOUNCED], ...at(0) });
    const seen = [1, 2, 3, 4].map((i) => said(look(i * 1_000, { pods: known([web, born(`web-${i}`, i)]), ...at(i) })));
    expect(seen.map((one) => one.length)).toEqual([1, 1, 1, 0]);
  });
});
