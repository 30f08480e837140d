import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createLogindDropIn } from '../../src/host/systemd/logind-drop-in.ts';
import { aTree } from './tree.ts';

const OWN = 'run/systemd/logind.conf.d';
const ETC = 'etc/systemd/logind.conf.d';
const MARK = '# Written by nodewarden';
const sets = (value: string): string => `[Login]\nInhibitDelayMaxSec=${value}\n`;

function inTree(files: { readonly [path: string]: string | null } = {}) {
  const root = aTree(files);
  return { root, dropIn: createLogindDropIn('/run/nodewarden', root) };
}

describe('the drop-in for logind', () => {
  it('is a file of whole seconds that all may read and only root may write, with nothing beside it', () => {
    const { root, dropIn } = inTree();
    const before = process.umask(0o077);
    try {
      expect(dropIn.write(32_001)).toEqual(known({ path: `${root}/${OWN}/zz-nodewarden.conf`, isNew: true }));
    } finally {
      process.umask(before);
    }
    expect(readFileSync(`${root}/${OWN}/zz-nodewarden.conf`, 'utf8')).toMatch(
      new RegExp(`^${MARK}.*\n\\[Login\\]\nInhibitDelayMaxSec=33\n$`),
    );
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['zz-nodewarden.conf']);
    expect(statSync(`${root}/${OWN}/zz-nodewarden.conf`).mode & 0o777).toBe(0o644);
    expect(statSync(`${root}/${OWN}`).mode & 0o777).toBe(0o755);
  });

  it('is replaced as a whole: a reader of the old file keeps it', () => {
    const { root, dropIn } = inTree();
    dropIn.write(10_000);
    const before = statSync(`${root}/${OWN}/zz-nodewarden.conf`).ino;
    dropIn.write(Number.POSITIVE_INFINITY);
    expect(statSync(`${root}/${OWN}/zz-nodewarden.conf`).ino).not.toBe(before);
    expect(readFileSync(`${root}/${OWN}/zz-nodewarden.conf`, 'utf8')).toContain('InhibitDelayMaxSec=infinity\n');
    expect(dropIn.winner()).toMatchObject({ value: { delayMs: Number.POSITIVE_INFINITY } });
  });

  it.each([
    ['99-kubelet.conf', 'zz-nodewarden.conf'],
    ['unattended-upgrades-logind-maxdelay.conf', 'zz-nodewarden.conf'],
    ['zz-nodewarden.conf', 'zzz-nodewarden.conf'],
    ['zzz.conf', 'zzzz-nodewarden.conf'],
    ['zzzzz.conf', 'zzzzz.conf-nodewarden.conf'],
    ['ähre.conf', 'ähre.conf-nodewarden.conf'],
    ['\u{1f600}.conf', '\u{1f600}.conf-nodewarden.conf'],
  ])('sorts after %s as %s, in whichever directory that is', (other, own) => {
    for (const directory of [ETC, OWN, 'usr/local/lib/systemd/logind.conf.d', 'usr/lib/systemd/logind.conf.d']) {
      const { root, dropIn } = inTree({ [`${directory}/${other}`]: sets('3') });
      const path = `${root}/${OWN}/${own}`;
      expect(dropIn.write(30_000)).toEqual(known({ path, isNew: true }));
      expect(dropIn.write(30_000)).toEqual(known({ path, isNew: false }));
      expect(dropIn.winner()).toEqual(known({ path, text: '30', delayMs: 30_000 }));
      expect(readFileSync(`${root}/${directory}/${other}`, 'utf8')).toBe(sets('3'));
    }
  });

  it('moves after a file that was added later, and leaves no second one', () => {
    const { root, dropIn } = inTree({ [ETC]: null });
    dropIn.write(30_000);
    writeFileSync(`${root}/${ETC}/zzz.conf`, sets('3'));
    expect(dropIn.write(30_000)).toMatchObject({ value: { isNew: true } });
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['zzzz-nodewarden.conf']);
    // As a run leaves it that was killed before it could remove its old one.
    writeFileSync(`${root}/${OWN}/zz-nodewarden.conf`, readFileSync(`${root}/${OWN}/zzzz-nodewarden.conf`));
    expect(dropIn.write(30_000)).toMatchObject({ value: { isNew: true } });
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['zzzz-nodewarden.conf']);
  });

  it('is not written if no name sorts last, and the winning file is reported', () => {
    const name = `${'\u{10ffff}'.repeat(62)}.conf`;
    const { root, dropIn } = inTree({ [`${ETC}/${name}`]: sets('3') });
    expect(dropIn.write(30_000)).toMatchObject({ known: false, where: `${root}/${OWN}` });
    expect(dropIn.winner()).toEqual(known({ path: `${root}/${ETC}/${name}`, text: '3', delayMs: 3_000 }));
  });

  it.each([
    ['a file of another owner', (path: string) => writeFileSync(path, sets('4'))],
    ['a link', (path: string) => symlinkSync('../../../target', path)],
    ['a directory', (path: string) => mkdirSync(path)],
  ])('leaves %s of its name alone', (_, make) => {
    const { root, dropIn } = inTree({
      [OWN]: null,
      target: `${MARK} for "/run/nodewarden", which removes it again when it needs no delay.\n`,
    });
    const path = `${root}/${OWN}/zz-nodewarden.conf`;
    make(path);
    const before = [lstatSync(path).ino, readFileSync(`${root}/target`, 'utf8')];
    expect(dropIn.write(30_000)).toMatchObject({ value: { path: `${root}/${OWN}/zzz-nodewarden.conf` } });
    expect(dropIn.remove()).toEqual(known('removed'));
    expect(dropIn.remove()).toEqual(known('none'));
    expect([lstatSync(path).ino, readFileSync(`${root}/target`, 'utf8')]).toEqual(before);
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['zz-nodewarden.conf']);
  });

  it('of another agent, such as a demo or a dry run, is not removed', () => {
    const { root, dropIn } = inTree();
    dropIn.write(30_000);
    const other = createLogindDropIn('/tmp/demo', root);
    expect(other.remove()).toEqual(known('none'));
    expect(other.write(40_000)).toMatchObject({ value: { path: `${root}/${OWN}/zzz-nodewarden.conf` } });
    expect(dropIn.remove()).toEqual(known('removed'));
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['zzz-nodewarden.conf']);
  });

  it('is not written into a directory that others can write, or that is a link', () => {
    const open = inTree({ [OWN]: null });
    chmodSync(`${open.root}/${OWN}`, 0o775);
    expect(open.dropIn.write(30_000)).toMatchObject({ known: false, detail: expect.stringContaining('chmod go-w') });
    const linked = inTree({ 'run/systemd': null, elsewhere: null });
    symlinkSync('../../elsewhere', `${linked.root}/${OWN}`);
    expect(linked.dropIn.write(30_000)).toMatchObject({ known: false, detail: expect.stringContaining('link') });
    expect([readdirSync(`${open.root}/${OWN}`), readdirSync(`${linked.root}/elsewhere`)]).toEqual([[], []]);
  });

  it('leaves a copy under another name alone', () => {
    const { root, dropIn } = inTree();
    dropIn.write(10_000);
    writeFileSync(`${root}/${OWN}/50-copy.conf`, readFileSync(`${root}/${OWN}/zz-nodewarden.conf`));
    dropIn.write(20_000);
    dropIn.remove();
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['50-copy.conf']);
  });

  it('needs no removal if there is none, and no directory is created for that', () => {
    const { root, dropIn } = inTree();
    expect(dropIn.remove()).toEqual(known('none'));
    expect(existsSync(`${root}/run`)).toBe(false);
  });
});

describe('the file that is in force for logind', () => {
  const winner = (files: { readonly [path: string]: string }) => {
    const { root, dropIn } = inTree(files);
    const found = dropIn.winner();
    if (!found.known || found.value === null) return found.known ? null : found;
    return [found.value.path.slice(root.length + 1), found.value.delayMs];
  };

  it('is the last by name across all directories, and every drop-in overrides logind.conf', () => {
    expect(winner({})).toBeNull();
    expect(winner({ 'etc/systemd/logind.conf': sets('90') })).toEqual(['etc/systemd/logind.conf', 90_000]);
    expect(
      winner({
        'etc/systemd/logind.conf': sets('90'),
        [`${ETC}/10-a.conf`]: sets('10'),
        [`${OWN}/90-b.conf`]: sets('20'),
        'usr/lib/systemd/logind.conf.d/50-c.conf': sets('30'),
      }),
    ).toEqual([`${OWN}/90-b.conf`, 20_000]);
    // By bytes, which is not the order of JavaScript's text.
    const [last, other] = [`${ETC}/\u{1f600}.conf`, `${ETC}/\uffee.conf`];
    expect(winner({ [last]: sets('10'), [other]: sets('20') })).toEqual([last, 10_000]);
  });

  it('hides a file of the same name in a later directory, even if it sets nothing', () => {
    expect(winner({ [`${ETC}/a.conf`]: sets('10'), [`${OWN}/a.conf`]: sets('20') })).toEqual([`${ETC}/a.conf`, 10_000]);
    expect(winner({ [`${ETC}/a.conf`]: '', [`${OWN}/a.conf`]: sets('20') })).toBeNull();
  });

  it('is never one that logind would not read', () => {
    expect(winner({ [`${ETC}/a.conf.bak`]: sets('10'), [`${ETC}/.a.conf`]: sets('20') })).toBeNull();
  });

  it('is the previous one if logind cannot parse the last', () => {
    expect(winner({ [`${ETC}/a.conf`]: sets('10'), [`${ETC}/b.conf`]: sets('soon') })).toEqual([
      `${ETC}/a.conf`,
      10_000,
    ]);
  });

  // As 252 has it.
  it.each([
    [sets('0.5'), 500],
    [sets('.5'), 500],
    [sets('+7'), 7_000],
    [sets('5 s 3'), 8_000],
    [sets('2min 30s'), 150_000],
    [sets('1h30m'), 5_400_000],
    [sets('500ms'), 500],
    [sets('0'), 0],
    [sets('infinity'), Number.POSITIVE_INFINITY],
    ['[Login]\n InhibitDelayMaxSec = 7 \n', 7_000],
    ['[Login]\nInhibitDelayMaxSec=5\nInhibitDelayMaxSec=6\n', 6_000],
    ['[Login]\nInhibitDelayMaxSec=5\nInhibitDelayMaxSec=x\n', 5_000],
    ['[Other]\nInhibitDelayMaxSec=5\n', null],
    ['InhibitDelayMaxSec=5\n', null],
    ['[Login]\n#InhibitDelayMaxSec=5\n', null],
    ['[Login]\nInhibitDelayMaxSec=5 # five\n', null],
    [sets('-5'), null],
    [sets(''), null],
  ])('that has %j', (text, delayMs) => {
    expect(winner({ [`${ETC}/a.conf`]: text })).toEqual(delayMs === null ? null : [`${ETC}/a.conf`, delayMs]);
  });
});
