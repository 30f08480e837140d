import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { firstCandidate } from '../../../src/core/eviction/candidate.ts';
import { rank } from '../../../src/core/eviction/rank.ts';
import { explain } from '../../../src/core/explain.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import type { Signal } from '../../../src/core/signal.ts';
import { sayReason } from '../../../src/words/reason.ts';
import { aConfig, aPod, aThreshold, MI } from '../../a.ts';
import { aLook } from '../an-explained-look.ts';
import { aCore, victims } from './a-live-core.ts';

const request = (mebibytes: number) => ({ memoryBytes: mebibytes * MI, ephemeralStorageBytes: 0 });
/** Known by its cgroup alone. */
const unnamed = { namespace: '?', limitedBy: 'unnamed' } as const;
const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
const hog = aPod({ name: 'hog', workingSetBytes: 200 * MI, processes: 90, unsaid, ...unnamed });
const db = aPod({ name: 'db', workingSetBytes: 100 * MI, processes: 40, requests: request(200) });

function choice(pods: readonly PodView[], lacking = 5 * MI, signal: Signal = 'memory.available') {
  return firstCandidate(signal, rank(signal, pods, 'nodefs-only'), [], () => false, lacking);
}
const chosen = (...of: Parameters<typeof choice>) => {
  const { victim, nobody } = choice(...of);
  return victim?.name ?? nobody;
};

describe('a pod that nobody has named (C9)', () => {
  it('is not evicted, and no pod within its request is evicted for it', () => {
    expect(choice([db, hog])).toMatchObject({
      victim: null,
      nobody: 'awaited',
      passedOver: [
        { uid: 'uid-hog', because: 'unnamed' },
        { uid: 'uid-db', because: 'not-over-request' },
      ],
    });
    expect(chosen([hog])).toBe('awaited');
  });

  it('is not evicted while the API server is asked for it, nor is any other pod for it', () => {
    expect(choice([db, { ...hog, limitedBy: 'looked-up' }])).toMatchObject({
      victim: null,
      nobody: 'awaited',
      passedOver: [{ because: 'looked-up' }, { because: 'not-over-request' }],
    });
  });

  it('is evicted once it has been named', () => {
    expect(chosen([db, { ...hog, limitedBy: null }])).toBe('hog');
  });

  it('does not save a pod that exceeds its request, declared or not, protected or not', () => {
    expect(chosen([db, hog, aPod({ name: 'over', workingSetBytes: 20 * MI })])).toBe('over');
    expect(chosen([hog, aPod({ name: 'kept', isProtected: true, workingSetBytes: 20 * MI })])).toBe('kept');
    const bestEffort = { qos: 'BestEffort', unsaid: { ...unsaid, requests: false } } as const;
    expect(chosen([db, hog, aPod({ name: 'new', workingSetBytes: 20 * MI, ...bestEffort })])).toBe('new');
  });

  it('costs no pod its life that exceeds its request by next to nothing', () => {
    expect(choice([db, hog, aPod({ name: 'tiny', workingSetBytes: 3 * MI })])).toMatchObject({
      nobody: 'awaited',
      passedOver: [{ because: 'unnamed' }, { uid: 'uid-tiny', because: 'too-little' }, { because: 'not-over-request' }],
    });
    expect(chosen([{ ...db, limitedBy: 'unnamed' }, aPod({ name: 'tiny', workingSetBytes: 3 * MI })])).toBe('tiny');
  });

  it('saves a protected pod only together with one that would come before it', () => {
    const kept = aPod({ name: 'kept', isProtected: true, workingSetBytes: MI });
    expect(chosen([db, hog, kept])).toBe('awaited');
    expect(chosen([db, kept])).toBe('db');
  });

  it('may be to blame as much as a named one with an unknown request: of two such pods, none is evicted', () => {
    const named = { ...hog, uid: 'uid-named', name: 'named', limitedBy: null };
    expect(chosen([db, named])).toBe('named');
    expect(chosen([db, named, hog])).toBe('awaited');
  });

  it('is not to blame if it holds less than is lacking; several are if they hold that together', () => {
    expect(chosen([db, hog], 200 * MI)).toBe('awaited');
    expect(chosen([db, hog], 200 * MI + 1)).toBe('db');
    const other = { ...hog, uid: 'uid-other', name: 'other' };
    expect(chosen([db, hog, other], 400 * MI)).toBe('awaited');
    expect(chosen([db, hog, other], 400 * MI + 1)).toBe('db');
  });

  it('is to blame for what the limit lacks at every look, however much more the min reclaim does', () => {
    const core = aCore(aConfig([aThreshold('memory.available', 100 * MI, { minReclaimBytes: 1_000 * MI })]), [hog, db]);
    const looks = [0, 100, 200].map((atMs) => core.look(atMs, { memory: 50 }));
    expect(looks.map(victims)).toEqual([[], [], []]);
  });

  it('is to blame if it is BestEffort, and not if it is Guaranteed and within its limit', () => {
    const requests = { ...unsaid, requests: false };
    expect(chosen([db, { ...hog, qos: 'BestEffort', unsaid: requests }])).toBe('awaited');
    expect(chosen([db, { ...hog, qos: 'Guaranteed', requests: request(256), unsaid: requests }])).toBe('db');
  });

  it('saves a pod that holds fewer process IDs than are lacking, not one that holds as many', () => {
    expect(chosen([db, hog], 41, 'pid.available')).toBe('awaited');
    expect(chosen([db, hog], 40, 'pid.available')).toBe('db');
  });

  it('saves nobody from a full disk: its end frees no file while it cannot be deleted', () => {
    const full = { diskBytes: 9 * MI };
    expect(chosen([{ ...hog, ...full }, aPod({ name: 'web', ...full })], MI, 'nodefs.available')).toBe('web');
  });
});

describe('a look that waits for a name', () => {
  const look = aLook([db, hog]);
  const nameOf = (uid: string): string => uid.replace('uid-', 'default/');

  it('decides nothing, gives the reason, and the next look comes soon', () => {
    expect(look.decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(look.reasons.map((reason) => sayReason(reason, nameOf))).toEqual([
      'memory.available 50 MiB is below 100 MiB',
      'default/hog is passed over: neither the API server nor the container runtime has named it yet',
      'default/db is passed over: it is not known to exceed its request',
      'memory.available: no pod is evicted until the API server or the container runtime has said more about the pod that may be the cause',
    ]);
    const { next } = decide(look.state, look.observation, look.config);
    expect(next).toMatchObject({ afterMs: 100, pods: 'memory.available' });
  });

  it('is explained in the same words, for each pod', () => {
    expect(explain(look, 'memory.available')).toMatchObject({
      victim: null,
      pods: [{ candidate: { because: 'unnamed' } }, { candidate: { because: 'not-over-request' } }],
    });
  });
});
