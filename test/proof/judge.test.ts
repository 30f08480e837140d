import { describe, expect, it } from 'vitest';
import { readConformance, readLab, readVitest } from '../../proof/evidence.ts';
import { judge, type Left, type Ran, type Run } from '../../proof/judge.ts';
import type { Line } from '../../proof/lines.ts';

const LAB = `== on this machine
ok      the hog goes (1.5 s)
        gone after 55 ms
FAILED  the kernel kills nobody (0.2 s)
        the kernel killed 1 times
figures: granted ms 10000, power-offs 1
lab: 1 passed, 1 failed, 0 skipped
`;
const read = (text: string) => readLab({ text, results: '/nonexistent' });
const ON = {
  cpu: 'cpu',
  cores: 2,
  memoryGiB: 4,
  kernel: '6.1',
  node: '20',
  commit: 'abc',
  loadBefore: 0,
  at: '2026-01-02T03:04:05.000Z',
};
const ran = (text: string, ended: string | null = null): Ran => ({ seconds: 1, loadBefore: 0, ended, ...read(text) });
const line = (use: Partial<Line['uses'][number]> = {}): Line => ({
  name: 'kill',
  claim: 'It goes.',
  uses: [{ part: 'hard', ...use }],
});
function judged(hard: Ran | Left | undefined, use: Partial<Line['uses'][number]> = {}) {
  const run: Run = { on: ON, parts: hard === undefined ? {} : { hard } };
  const { verdict, figure } = judge(line(use), run);
  return { verdict, figure };
}

describe('what a command has shown', () => {
  it('is read from the output of a lab', () => {
    expect(read(LAB)).toEqual({
      checks: [
        { name: 'the hog goes', holds: true, figures: 'gone after 55 ms' },
        { name: 'the kernel kills nobody', holds: false, figures: 'the kernel killed 1 times' },
      ],
      figures: ['granted ms 10000', 'power-offs 1'],
      isWhole: true,
    });
  });
  it('is unknown if a lab skips it', () => {
    const { checks } = read('skipped the guest: mmdebstrap is not installed\nlab: 0 passed, 0 failed, 1 skipped\n');
    expect(checks).toEqual([{ name: 'the guest', holds: null, figures: 'mmdebstrap is not installed' }]);
  });
  it('is read from the output of tests and of the conformance run', () => {
    const tests = [
      { fullName: 'a stays', status: 'passed' },
      { fullName: 'b goes', status: 'failed' },
    ];
    const text = `> vitest\n${JSON.stringify({ testResults: [{ assertionResults: tests }] })}\n`;
    expect(readVitest({ text, results: '' }).checks.map(({ holds }) => holds)).toEqual([true, false]);
    const said = 'conformance: 3 eviction scenarios: 5 passed, 1 failed, 9 not passed on purpose';
    expect(readConformance({ text: said, results: '' }).checks.map(({ holds }) => holds)).toEqual([false]);
    expect(readConformance({ text: 'Killed', results: '' }).isWhole).toBe(false);
  });
});

describe('a claim', () => {
  it('holds if all its checks hold', () => {
    expect(judged(ran(LAB, 'it ended with 1'), { checks: /hog/, figures: /hog/ })).toEqual({
      verdict: 'holds',
      figure: '1 of 1 checks hold; gone after 55 ms',
    });
  });
  it('does not hold if one check fails, which is named', () => {
    expect(judged(ran(LAB, 'it ended with 1'))).toEqual({
      verdict: 'does not hold',
      figure: '1 of 2 checks hold; not: the kernel kills nobody (the kernel killed 1 times)',
    });
  });
  it.each([
    ['ended without its last line', 'ok      the hog goes (1.5 s)\n', null],
    ['was stopped', 'ok      the hog goes (1.5 s)\n', 'it was stopped after 3 minutes'],
    [
      'failed although all its checks held',
      'ok      the hog goes (1.5 s)\nlab: 1 passed, 0 failed, 0 skipped\n',
      'it ended with 1',
    ],
    ['showed only other checks', 'ok      another (1.5 s)\nlab: 1 passed, 0 failed, 0 skipped\n', null],
    ['printed nothing', '', null],
  ])('does not hold if the command %s', (_, text, ended) => {
    expect(judged(ran(text, ended), { checks: /hog/ }).verdict).toBe('does not hold');
  });
  it('is not shown if the command could not run, or was not requested, and says why', () => {
    const skipped = ran('skipped the guest: QEMU is not installed\nlab: 0 passed, 0 failed, 1 skipped\n');
    expect(judged(skipped, { checks: /hog/ })).toEqual({
      verdict: 'not run here',
      figure: 'not run: the guest (QEMU is not installed)',
    });
    expect(judged({ why: 'only root can run it' }).verdict).toBe('not run here');
    expect(judged(undefined).verdict).toBe('not run here');
  });
  it('is not judged by a check that was not requested', () => {
    const more = ran(`${LAB}skipped the guest: QEMU is not installed\n`, 'it ended with 1');
    expect(judged(more, { checks: /hog/ }).verdict).toBe('holds');
  });
  it('can depend on a figure of the command, and does not hold if that is too large', () => {
    const upTo = (most: number) =>
      judged(ran(LAB), { checks: /hog/, atMost: { figure: 'granted ms', most, unit: 'ms' } });
    expect(upTo(10_000).verdict).toBe('holds');
    expect(upTo(9_999)).toEqual({
      verdict: 'does not hold',
      figure: '1 of 2 checks hold; not: granted ms (10000 ms, wanted <= 9999 ms)',
    });
    const unseen = { checks: /hog/, atMost: { figure: 'another ms', most: 1, unit: 'ms' } };
    expect(judged(ran(LAB), unseen).verdict).toBe('not run here');
  });
});
