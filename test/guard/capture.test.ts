import { describe, expect, it } from 'vitest';
import type { NodeObject } from '../../src/core/guard/observation.ts';
import { captureScenario } from '../../src/guard/capture.ts';
import type { GuardLook } from '../../src/guard/loop.ts';
import { runGuard } from '../../src/simulate/guard/run.ts';
import { aPodOn } from '../core/guard/a-machine.ts';
import { aMemory } from '../core/guard/a-node.ts';
import { aLook, DEAD, type Given, SINCE } from '../core/guard/a-turn.ts';
import { aScenario } from '../simulate/guard/a-world.ts';

const alive = (name: string, of: Partial<NodeObject> = {}) => aMemory({ of: { name, uid: `uid-${name}`, ...of } });
const others = ['w2', 'w3', 'w4', 'w5'].map((name) => alive(name));
function looked(given: Given = {}): GuardLook {
  const { state, observation, config } = aLook({ others, pods: [aPodOn({ name: 'db-0' })], ...given });
  return { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
}
const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };
const captured = (given: Given = {}, redacted = false) => captureScenario(looked(given), redacted);
const whatHappens = (given: Given) => captured(given).events;
/** What becomes of it by the same decisions. */
function played(given: Given) {
  const { nodes, events } = captured(given);
  return runGuard(aScenario({ nodes, events })).result;
}

describe('what a guard sees', () => {
  it('is a scenario, which ends as the guard itself would decide', () => {
    expect(played({}).fenced).toEqual(['w1']);
    expect(played({ witness: 'answers' }).fenced).toEqual([]);
    const storm = ['w2', 'w3', 'w4'].map((name) => aMemory({ ...DEAD, of: { name, uid: `uid-${name}` } }));
    expect(played({ others: [...storm, alive('w5')] }).fenced).toEqual([]);
    expect(played({ said: { 'vm w1': ['unknown@9000'] } }).fenced).toEqual([]);
  });

  it.each<[string, Given, object]>([
    ['hangs', {}, { node: 'w1', freeze: true }],
    ['lost the API', { witness: 'answers' }, { cut: 'w1', from: 'api' }],
    ['has no kubelet', { witness: 'refused' }, { node: 'w1', kubelet: 'stop' }],
    ['is off', { said: { 'vm w1': ['off@9000'] } }, { node: 'w1', power: 'off' }],
    ['shuts down', { memory: { announced: 'agent' } }, { node: 'w1', announce: 'shutdown' }],
  ])('says of a machine that it %s', (_, given, event) => {
    expect(whatHappens(given)).toEqual([{ at: '300s', ...event }]);
  });

  it('keeps when one fell silent after another, what their devices say, and who is cordoned', () => {
    const later = aMemory({ ...DEAD, onsetMs: DEAD.onsetMs + 30_000, of: { name: 'w2', uid: 'uid-w2' } });
    const idle = alive('w3', { isUnschedulable: true });
    expect(whatHappens({ others: [later, idle] })).toEqual([
      { at: '300s', node: 'w1', freeze: true },
      { at: '330s', node: 'w2', freeze: true },
      { at: '330s', device: { node: 'w2', level: 1, says: 'unknown' } },
      { at: '0s', node: 'w3', cordon: true },
    ]);
    expect(played({ others: [later, idle] }).held.length).toBeGreaterThan(0);
  });

  it('switches the whole machine by each level of its devices, as the guard would see it', () => {
    const config = { defaultPlan: { isolation: ['fc {node}'], levels: [['bmc {node}'], ['pdu {node}']] } };
    const said = { 'bmc w1': ['on@9000'], 'pdu w1': ['on@9000'] } as const;
    const { nodes, events } = captured({ config, said });
    expect(nodes[0]).toMatchObject({
      devices: [{ kind: 'fabric', level: 0 }, { kind: 'bmc' }, { kind: 'bmc', level: 2 }],
    });
    const { result, violations } = runGuard(aScenario({ nodes, events }));
    expect({ recovered: result.recovered, violations }).toEqual({ recovered: ['w1'], violations: [] });
  });

  it('has what somebody wrote on a Node, and would keep the guard from fencing it', () => {
    const annotations = { 'nodewarden.dev/guard': 'skip' };
    expect(whatHappens({ memory: { of: { annotations } } })[0]).toEqual({
      ...{ at: '0s', node: 'w1', annotate: annotations },
    });
    expect(played({ memory: { of: { annotations } } }).fenced).toEqual([]);
  });

  it('can be read if a member stands on two silent nodes, as it does while one of them still holds it', () => {
    const [first] = looked({}).observation.asked.values();
    const second = aMemory({ ...DEAD, of: { name: 'w2', uid: 'uid-w2' } });
    const asked = new Map(first === undefined ? [] : ['uid-w1', 'uid-w2'].map((uid) => [uid, first]));
    const { nodes } = captured({ others: [second], seen: { asked } });
    expect(nodes).toMatchObject([
      { pods: [{ name: 'default/db-0', statefulSet: 'db' }] },
      { pods: [{ name: 'default/db-0~2', statefulSet: 'db' }] },
    ]);
    expect(aScenario({ nodes }).nodes).toHaveLength(2);
  });

  it('does not wait for days in which nothing happened', () => {
    const longAgo = aMemory({ ...DEAD, onsetMs: DEAD.onsetMs - 86_400_000, of: { name: 'w2', uid: 'uid-w2' } });
    expect(whatHappens({ others: [longAgo] })).toMatchObject([{ at: '360s' }, { at: '300s' }, { at: '300s' }]);
  });

  it('has the labels that the configuration names, and those of its role, and no others', () => {
    const labels = { zone: 'a', team: 'x', 'node-role.kubernetes.io/master': '' };
    expect(captured({ memory: { of: { labels } } }).nodes[0]).toMatchObject({
      name: 'w1',
      labels: { 'node-role.kubernetes.io/master': '', zone: 'a' },
      pods: [{ name: 'default/db-0', statefulSet: 'db' }],
      devices: [{ kind: 'bmc', level: 1 }],
    });
  });

  it('is redacted of every name, and stays the same world', () => {
    const labels = { zone: 'secret-zone' };
    const given = { memory: { of: { labels } }, others: [alive('secret-node', { labels }), ...others] };
    const text = JSON.stringify(captured(given, true));
    expect(text).not.toMatch(/secret|w1|db/);
    const { nodes, events } = captured(given, true);
    expect(runGuard(aScenario({ nodes, events })).result.fenced).toHaveLength(1);
  });
  it('is empty where nothing is silent', () => {
    expect(whatHappens({ memory: { isSuspect: false, onsetMs: null, signMs: SINCE } })).toEqual([]);
  });
});
