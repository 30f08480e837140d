import { describe, expect, it } from 'vitest';
import { plotReaction, type ReactionResult } from '../../bench/plot.ts';
import { type Breach, type Row, rowOf } from '../../bench/reaction/series.ts';

const on = {
  cpu: 'Some <CPU> & "more"',
  cores: 2,
  memoryGiB: 24,
  kernel: '6.1',
  node: '20.20.2',
  commit: 'abc1234',
  loadBefore: 0,
  at: '2030-01-02T03:04:05.000Z',
};
const breaches = (reactions: readonly number[], lost = 0): readonly Breach[] => [
  ...reactions.map((reactionMs) => ({
    endedBy: 'peer' as const,
    reactionMs,
    backMs: 90,
    rateMiB: 1500,
    isOtherKilled: false,
  })),
  ...Array.from({ length: lost }, () => ({
    endedBy: 'kernel' as const,
    reactionMs: 120,
    backMs: 90,
    rateMiB: 1500,
    isOtherKilled: false,
  })),
];
const RATES = ['max', '50', '10', '250', '1024'];
const result = (rows: readonly Row[]): ReactionResult => ({ on, nodeMiB: 1024, thresholdMiB: 200, rows });
const host = result([
  ...RATES.map((rate) => rowOf('nodewarden', rate, false, breaches([1, 2, 3, 9]))),
  ...RATES.map((rate) => rowOf('earlyoom', rate, false, breaches([20, 50, 90], rate === 'max' ? 4 : 0))),
  ...RATES.map((rate, i) => rowOf('looks each 10 s', rate, false, breaches([900], i))),
  rowOf('looks each 10 s', '250', true, breaches([5000])),
]);
const guest = result([
  rowOf('nodewarden', '50', false, breaches([10])),
  rowOf('systemd-oomd', '50', false, breaches([], 3)),
  rowOf('systemd-oomd', '250', false, breaches([], 3)),
  rowOf('systemd-oomd + MemoryHigh', '50', false, breaches([2000, 2500])),
]);

/** Every point that is drawn, also where a mark is moved to. */
function points(svg: string): readonly (readonly [number, number])[] {
  const pairs = [...svg.replace(/ d="[^"]*"/g, '').matchAll(/(?:translate\(|[ "])(-?[\d.]+),(-?[\d.]+)(?=[)" ])/g)];
  const lines = [...svg.matchAll(/x1="([^"]+)" y1="([^"]+)" x2="([^"]+)" y2="([^"]+)"/g)];
  const texts = [...svg.matchAll(/<text x="([^"]+)" y="([^"]+)"/g)];
  return [
    ...[...pairs, ...texts].map(([, x, y]) => [Number(x), Number(y)] as const),
    ...lines.flatMap(([, x1, y1, x2, y2]) => [[Number(x1), Number(y1)] as const, [Number(x2), Number(y2)] as const]),
  ];
}

describe('the picture of the reaction', () => {
  const svg = plotReaction(host, guest);

  it('is small, and loads nothing', () => {
    expect(Buffer.byteLength(svg)).toBeLessThan(30_000);
    expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(/https?:|url\(|<script|@import|href/);
  });
  it('says what it was measured on, and escapes it', () => {
    expect(svg).toContain(
      'Some &#60;CPU&#62; &#38; &#34;more&#34;, 2 cores, 24 GiB, Linux 6.1, Node.js 20.20.2, 2030-01-02',
    );
    expect(svg).not.toContain('<CPU>');
  });
  it('contains no NaN, and draws nothing outside its frame', () => {
    expect(svg).not.toMatch(/NaN|undefined|null|Infinity/);
    const all = points(svg);
    expect(all.length).toBeGreaterThan(80);
    for (const [x, y] of all) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(920);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThanOrEqual(456);
    }
  });
  it('has the rates in order, the fastest with the measured rate', () => {
    const said = [...svg.matchAll(/text-anchor="middle">([^<]+)</g)].map(([, label]) => label);
    expect(said.slice(0, 5)).toEqual(['10', '50', '250', '1024', 'max (1500)']);
  });
  it('places a faster median lower, and draws an open mark for peers that were late in some runs', () => {
    const marks = (look: number): readonly number[] =>
      [...svg.matchAll(new RegExp(`translate\\([\\d.]+,([\\d.]+)\\)" class="s${look} `, 'g'))].map(([, y]) =>
        Number(y),
      );
    expect(marks(0)[0]).toBeGreaterThan(marks(1)[0] ?? Number.NaN);
    expect(svg.match(/class="s1 open"/g)).toHaveLength(1);
    expect(svg).not.toMatch(/class="s0 open"/);
  });
  it('shows from the guest only peers that cannot run here, at rates that were reached', () => {
    const without = plotReaction(host, null);
    expect(without).not.toContain('systemd-oomd');
    expect(svg).toContain('systemd-oomd + MemoryHigh *<');
    expect(svg.match(/class="line s\d guest"/g)).toHaveLength(2);
    const slow = result(guest.rows.map((row) => ({ ...row, rateMiB: 30 })));
    expect(plotReaction(host, slow)).toBe(without);
  });
  it('describes in words how often each peer was in time', () => {
    expect(svg).toContain('earlyoom at max MiB/s: in time in 3 of 7 runs, median over 120 ms');
    expect(svg).toContain('systemd-oomd at 50 MiB/s: in time in 0 of 3 runs');
  });
});
