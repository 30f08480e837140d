import { describe, expect, it } from 'vitest';
import { timelineOf } from '../../../src/simulate/guard/timeline.ts';
import { type Json, MEMBER, run } from './a-world.ts';

const NODES: readonly Json[] = [{ names: 'w[1-9]', pods: [{ ...MEMBER, name: 'db-{node}' }] }];
const linesOf = (events: readonly Json[], config: Json = {}): string =>
  timelineOf(run({ nodes: NODES, events, config }).facts)
    .map(({ text }) => text)
    .join('\n');

describe('the timeline of a guard', () => {
  it('says which order was accepted', () => {
    const said = linesOf([
      { at: '5m', node: 'w2', kubelet: 'stop' },
      { at: '5m50s', order: { verb: 'fence', node: 'w2', by: 'anna', because: 'its disks are gone' } },
    ]);
    expect(said).toContain('order of anna: fence w2: accepted');
  });

  it('says what an ordered fencing frees, of a node that was read only for it', () => {
    const said = linesOf([
      { at: '5m', node: 'w2', kubelet: 'stop' },
      { at: '5m10s', order: { verb: 'fence', node: 'w2', by: 'anna', because: 'its disks are gone' } },
    ]);
    expect(said).toMatch(/w2: fence: silent for \S+; frees default\/db-w2 and 1 volume/);
  });

  it('says which order was refused, and why', () => {
    const said = linesOf([{ at: '5m', order: { verb: 'power-on', node: 'w2', by: 'anna', because: 'x' } }]);
    expect(said).toContain('order of anna: power-on w2: refused: no fencing of this node is open');
  });

  it('says in words and with units what holds a node', () => {
    const said = linesOf(
      [
        { at: '4m', device: { node: 'w4', hangs: true } },
        { at: '5m', node: 'w2', freeze: true },
        { at: '5m', node: 'w3', freeze: true },
        { at: '7m', node: 'w4', freeze: true },
      ],
      { rate: { minInterval: '3m' }, storm: { maxUnhealthy: '60%', burst: { nodes: 5, within: '30s' } } },
    );
    expect(said).toMatch(
      /w[23]: held by gate rate: the last power-off, decided or done, real or in dry run, was \d+(ms|\.\d+s|s) ago \(minInterval 3m0s\)/,
    );
    expect(said).toContain('w4: held by gate device: its devices do not all answer');
  });

  it('does not call a machine left off whose Node was deleted: nobody knows', () => {
    const said = linesOf([
      { at: '5m', node: 'w2', freeze: true },
      { at: '7m20s', deleteNode: 'w2' },
      { at: '9m', node: 'w2', power: 'on' },
    ]);
    expect(said).toContain('w2: its Node was deleted: its machine is left as it is');
    expect(said).toContain('w2: closed (a Node that was made anew with its name lives)');
    expect(said).not.toContain('w2: left off');
  });
});
