import { describe, expect, it } from 'vitest';
import { lastBoot } from '../../src/record/reading/boot-report.ts';
import { aBoot, aWholeShutdown, BEGAN, phase } from './a-shutdown.ts';

const boot = aBoot('b');
const now = aBoot('now', { bootWallMs: 3_600_000 });
const sentenceOf = (entries: Parameters<typeof lastBoot>[0]) => lastBoot(entries, 'now')?.sentence;

describe('the report of the last boot', () => {
  it('is empty if the records have no earlier boot', () => {
    expect(lastBoot([], 'now')).toBeNull();
    expect(lastBoot([now.running(1, 'shop/web')], 'now')).toBeNull();
  });

  it('does not say of a dry run that it stopped pods', () => {
    const dry = aBoot('b', { dry: true });
    const report = lastBoot([boot.started(1), boot.stopped(5, 'stays'), dry.started(6), ...aWholeShutdown(dry)], 'now');
    expect(report).toMatchObject({ finding: null });
    expect(report?.sentence).toBe('the last boot ended cleanly, without shutdown phases of nodewarden');
  });

  it('says in one sentence how a shutdown went, without a finding', () => {
    const report = lastBoot([boot.started(1), ...aWholeShutdown(boot)], 'now');
    expect(report).toMatchObject({ finding: null, shutdown: { bootId: 'b' } });
    expect(report?.sentence).toBe(
      'the last boot ended with a shutdown (reboot) of 3 pods: all phases were done after 22.5s; not in time: shop/db',
    );
  });

  it('stays a message that an API server takes, however long the names of pods are', () => {
    const names = Array.from({ length: 20 }, (_, index) => `${'n'.repeat(63)}/${'p'.repeat(250)}-${index}`);
    const sentence = sentenceOf([boot.started(1), boot.running(2, ...names)]);
    expect(sentence).toMatch(/: n{63}\/p{250}-0, n{63}\/p{250}-1, n{63}\/p{250}-2 and 17 more$/);
  });

  it('counts and names pods, not stops: a restarted pod is stopped more than once', () => {
    const again = [boot.stop(119_000, 'b-8', 'web', 1, 1), boot.stop(119_500, 'b-9', 'web', 1, 1)];
    expect(sentenceOf([boot.started(1), ...aWholeShutdown(boot), ...again])).toBe(
      'the last boot ended with a shutdown (reboot) of 3 pods: all phases were done after 22.5s; not in time: shop/db, shop/web',
    );
  });

  it('is a finding if the boot ended without a trace: possible causes, running pods, where to look', () => {
    const report = lastBoot([boot.started(1), boot.running(2, 'shop/db', 'shop/web')], 'now');
    expect(report).toMatchObject({ shutdown: null, finding: { id: 'last-boot' } });
    expect(report?.finding?.text).toBe(
      'the last boot ended without a shutdown (power cut, crash, reboot -f, or nodewarden was killed before it): ' +
        'these pods were running: shop/db, shop/web; see: nodewarden history --shutdowns',
    );
  });

  it('is a finding if a shutdown was cut, with its phase and the late pods', () => {
    const report = lastBoot([boot.started(1), ...aWholeShutdown(boot).slice(0, 8)], 'now');
    expect(report).toMatchObject({ finding: { id: 'last-boot' } });
    expect(report?.sentence).toBe(
      'the last boot ended with a shutdown (reboot) whose record ends in phase 2 of 2: nodewarden or the machine ' +
        'ended before it was done, or its disk took no more entries (full, read-only); not in time: shop/db; end unknown: shop/dns',
    );
    expect(sentenceOf([boot.fact(5, { ...BEGAN, type: null })])).toBe(
      'the last boot ended with a shutdown whose record ends before the first phase of 2: nodewarden or the machine ' +
        'ended before it was done, or its disk took no more entries (full, read-only)',
    );
    expect(sentenceOf([boot.fact(5, BEGAN), boot.fact(5, phase(1)), boot.stopped(6, 'goes-down')])).toBe(
      'the last boot ended with a shutdown (reboot) that was cut short in phase 1 of 2: nodewarden ended before it was done',
    );
  });

  it('is a finding if the agent ended before it could stop what the phases beside a kubelet leave', () => {
    const announced = boot.fact(100_000, { what: 'announced', detail: null });
    const report = lastBoot([boot.started(1), ...aWholeShutdown(boot), announced], 'now');
    expect(report).toMatchObject({ boot: { end: 'cut' }, finding: { id: 'last-boot' } });
    expect(report?.sentence).toContain('; nodewarden ended before it could stop the pods that these leave');
  });

  it('names the pods for which it is a finding, although all phases were done', () => {
    const again = boot.fact(118_000, { what: 'stopped-again', pod: 'shop/web', times: 3 });
    const report = lastBoot([boot.started(1), ...aWholeShutdown(boot), again], 'now');
    expect(report?.finding?.text).toBe(
      'the last boot ended with a shutdown (reboot) of 3 pods: all phases were done after 22.5s; not in time: shop/db; ' +
        'started again and left running: shop/web; see: nodewarden history --shutdowns',
    );
    const whole = aWholeShutdown(boot);
    const survived = whole.map((entry, i) => (i === 9 ? boot.survived(122_500, 'b-3') : entry));
    expect(lastBoot([boot.started(1), ...survived], 'now')?.finding?.text).toContain(
      'not in time: shop/db; not ended: shop/dns; see',
    );
  });

  it('is about the previous boot, not an older one', () => {
    const older = aBoot('older', { bootWallMs: -3_600_000 });
    const report = lastBoot([...aWholeShutdown(older), boot.started(1), boot.stopped(9, 'stays')], 'now');
    expect(report).toMatchObject({ boot: { bootId: 'b', end: 'not-watched' }, shutdown: null, finding: null });
  });

  it.each([
    ['ended cleanly, without shutdown phases of nodewarden', [boot.started(1), boot.stopped(9, 'goes-down')]],
    ['nodewarden had been stopped before', [boot.started(1), boot.stopped(9, 'stays')]],
    ['the record does not say that nodewarden ran', [boot.lock(1, 'b-1', 'take-lock')]],
    ['no pod was running', [boot.started(1), boot.running(2)]],
    ['which pods ran is not recorded', [boot.started(1)]],
    ['its time was used up', [boot.fact(5, BEGAN), boot.fact(9, { what: 'released', why: 'out-of-time' })]],
    [
      'systemd began to stop everything before the phases were over, which was after',
      [boot.fact(5, BEGAN), boot.fact(9, { what: 'released', why: 'all-phases-done', isOvertaken: true })],
    ],
    ['ends in phase 1: ', [boot.stop(5, 'b-1', 'web', 1)]],
  ])('says: %s', (words, entries) => {
    expect(sentenceOf(entries)).toContain(words);
  });

  it('names no more than 20 pods', () => {
    const pods = Array.from({ length: 25 }, (_, i) => `shop/p${i}`);
    expect(sentenceOf([boot.running(2, ...pods)])).toMatch(/shop\/p19 and 5 more$/);
    expect(sentenceOf([boot.fact(5, BEGAN), boot.fact(5, phase(1, ...pods))])).toContain('and 5 more');
  });
});
