import { describe, expect, it } from 'vitest';
import { toCoreConfig } from '../../src/config/core-config.ts';
import { configOf } from '../../src/config/load.ts';
import { resolve } from '../../src/core/eviction/thresholds-met.ts';
import { bytesUp } from '../../src/core/units/quantity.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { effective, KUBELET_HEAD, load, problems, SIZES } from './a-config.ts';

describe('evictionStall', () => {
  it('is off unless configured, and has the defaults of D17', () => {
    expect(effective('').evictionStall).toBe(null);
    expect(effective('').thresholds.some(({ signal }) => signal === 'memory.stallFree')).toBe(false);
    expect(effective('evictionStall: {memory: {}}').evictionStall).toEqual({
      fullShare: 0.3,
      forMs: 10_000,
      belowShare: 0.25,
    });
  });

  it.each([
    ['30%', 7000],
    ['1%', 9_900],
    ['99%', 100],
    ['33.3%', 6670],
  ])('of %s is a threshold for the time without stall', (full, limitMs) => {
    const { thresholds } = toCoreConfig(effective(`evictionStall: {memory: {full: ${full}}}`), 1);
    const stall = thresholds.find(({ signal }) => signal === 'memory.stallFree');
    expect(stall && bytesUp(resolve(stall.value, 10_000))).toBe(limitMs);
  });

  it.each([
    ['{memory: {full: 0%}}', 'full: must be a percentage above 0% and up to 99%, not "0%"; for example "30%"'],
    ['{memory: {full: 100%}}', 'full: must be a percentage above 0% and up to 99%, not "100%"; for example "30%"'],
    ['{memory: {for: 500ms}}', 'for: must be at least 1s, not 500ms; for example "10s"'],
    ['{memory: {for: 10m}}', 'for: must be at most 5m0s, not 10m; for example "10s"'],
    ['{memory: {belowAvailable: 25}}', 'belowAvailable: expected text, not the number 25; for example "25%"'],
    ['{memory: {fulll: 30%}}', 'fulll: unknown field; did you mean full?'],
    ['{io: {full: 30%}}', 'io: unknown field; valid are memory'],
    ['{}', 'memory: missing'],
  ])('%s is refused with the reason and an example', (section, text) => {
    expect(problems(`evictionStall: ${section}`).join('\n')).toContain(text);
  });

  it('is shown with its origin', () => {
    const { settings } = effective('evictionStall: {memory: {for: 5s}}');
    expect(settings.filter(({ path }) => path.startsWith('evictionStall'))).toMatchObject([
      { path: 'evictionStall.memory.full', value: '30%', origin: { kind: 'default' } },
      { path: 'evictionStall.memory.for', value: '5s', origin: { line: 3 } },
      { path: 'evictionStall.memory.belowAvailable', value: '25%', origin: { kind: 'default' } },
    ]);
  });
});

describe('in a KubeletConfiguration', () => {
  const inKubelets = (text: string) => configOf(KUBELET_HEAD + text, 'k.yaml', SIZES);

  it.each(['evictionHard', 'evictionMinimumReclaim'])(
    'swap.available in %s is not a signal, as for the kubelet',
    (field) => {
      expect(inKubelets(`${field}: {swap.available: 10%}`).problems.map(sayProblem)).toEqual([
        expect.stringContaining('swap.available"]: unknown signal'),
      ]);
    },
  );

  it('evictionStall is ignored', () => {
    const { effective: taken, problems: said } = inKubelets('evictionStall: {memory: {}}');
    expect(said).toEqual([]);
    expect(taken).toMatchObject({ evictionStall: null, ignoredFields: ['evictionStall'] });
  });
});

describe('swap and stall on a host that has neither', () => {
  const without = { ...SIZES, swapBytes: 0, hasMemoryPressure: false };
  const text = 'evictionHard: {swap.available: 10%}\nevictionStall: {memory: {}}';

  it('cause warnings', () => {
    const warnings = load(text, without)
      .warnings.map((warning) => warning.text)
      .join('\n');
    expect(warnings).toContain('evictionHard: swap.available has no effect: this host has no swap');
    expect(warnings).toContain('c.yaml:4: evictionStall: memory.stallFree has no effect: this kernel has no pressure');
  });

  it('cause none if it has both, or if that is unknown', () => {
    expect(
      load(text, SIZES)
        .warnings.map((warning) => warning.text)
        .join('\n'),
    ).not.toContain('no effect');
    expect(
      load(text)
        .warnings.map((warning) => warning.text)
        .join('\n'),
    ).not.toContain('no effect');
  });
});
