import { describe, expect, it } from 'vitest';
import type { PodOnNode } from '../../../src/core/guard/observation.ts';
import { attachmentsByNode, freesOf, isNothing, leftOf } from '../../../src/core/guard/worth.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aPodOn } from './a-machine.ts';

const NODE = { name: 'w1', uid: 'uid-w1' };
const none = unknown('not-asked', '', '');
const attached = (node: string) => ({ name: `va-${node}`, node, driver: 'csi', volume: 'pv' });
/** Pods as read at 50, attachments at 60. */
const asked = (pods: readonly PodOnNode[], attachments = [attached('w1')]) => ({
  asked: new Map([[NODE.uid, { witness: none, look: none, members: none, pods: known({ value: pods, asOfMs: 50 }) }]]),
  attachments: known({ value: attachmentsByNode(attachments), asOfMs: 60 }),
});
const PLAIN = { ownerKind: 'ReplicaSet', hasAttachedVolume: false };

describe('a pod of a silent node', () => {
  it.each<[string, Partial<PodOnNode>, boolean, boolean]>([
    ['of a StatefulSet', { ownerKind: 'StatefulSet', hasAttachedVolume: false }, true, true],
    ['with an attached volume', { ...PLAIN, hasAttachedVolume: true }, true, true],
    ['that terminates', { ...PLAIN, isTerminating: true }, true, true],
    ['that has finished and terminates', { ...PLAIN, isTerminating: true, isFinished: true }, true, true],
    ['that is replaced without help', PLAIN, false, true],
    ['that has finished', { isFinished: true }, false, false],
    ['that tolerates the taint', { toleratesTaint: true, isTerminating: true }, false, false],
  ])('%s: whether it is stuck, and whether it has to go', (_, rest, isStuck, isToGo) => {
    const pod = aPodOn(rest);
    const attachments = [attached('w1')];
    expect(freesOf(NODE, asked([pod]), 50)).toEqual(known({ pods: isStuck ? [pod] : [], attachments }));
    expect(leftOf(NODE, asked([pod]), 50)).toEqual(known({ pods: isToGo ? [pod] : [], attachments }));
  });
});

describe('what is known of it', () => {
  it('is of its own attachments alone', () => {
    const frees = freesOf(NODE, asked([], [attached('w2')]), 0);
    expect(frees).toEqual(known({ pods: [], attachments: [] }));
    expect(frees.known && isNothing(frees.value)).toBe(true);
  });
  it('is something with a pod or an attachment alone', () => {
    expect(isNothing({ pods: [aPodOn()], attachments: [] })).toBe(false);
    expect(isNothing({ pods: [], attachments: [attached('w1')] })).toBe(false);
  });
  it('is nothing when either was not read, or too long ago', () => {
    const stale = { known: false, why: 'stale', detail: 'read too long ago' };
    expect(freesOf(NODE, asked([]), 51)).toMatchObject({ ...stale, where: 'pods' });
    const { asked: pods, attachments } = asked([]);
    const late = { asked: pods, attachments: known({ value: new Map(), asOfMs: 49 }) };
    expect(freesOf(NODE, late, 50)).toMatchObject({ ...stale, where: 'volumeattachments' });
    expect(freesOf(NODE, { asked: pods, attachments: none }, 0)).toBe(none);
    expect(freesOf(NODE, { asked: new Map(), attachments }, 0)).toMatchObject({ why: 'not-asked', where: 'pods' });
  });
});
