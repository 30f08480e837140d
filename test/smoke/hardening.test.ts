import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const UNIT = path.join(ROOT, 'systemd/nodewarden.service');
const GUARD = path.join(ROOT, 'systemd/nodewarden-guard.service');
const page = readFileSync(path.join(ROOT, 'docs/security.md'), 'utf8');
const MOST_EXPOSURE = 2.5;

/** systemd-analyze older than 250 reads no unit file. */
const analyze = (unit = UNIT): string =>
  execFileSync('systemd-analyze', ['security', '--offline=yes', unit], { encoding: 'utf8' });
const isThere = spawnSync('systemd-analyze', ['security', '--offline=yes', UNIT]).status === 0;

describe('the sandbox of the unit', () => {
  it(`is rated ${MOST_EXPOSURE} or lower, and docs/security.md names the figure [needs systemd-analyze 250]`, ({
    skip,
  }) => {
    if (!isThere) skip('no systemd-analyze that reads unit files');
    const [, rated = ''] = /Overall exposure level for nodewarden\.service: ([\d.]+)/.exec(analyze()) ?? [];
    expect(Number(rated)).toBeGreaterThan(0);
    expect(Number(rated)).toBeLessThanOrEqual(MOST_EXPOSURE);
    expect(page).toContain(`rates the unit ${rated} `);
  });

  it('has a reason in docs/security.md for everything that systemd-analyze marks [needs systemd-analyze 250]', ({
    skip,
  }) => {
    if (!isThere) skip('no systemd-analyze that reads unit files');
    const marked = [...analyze().matchAll(/^✗ (\S+)/gm)].map(([, name = '']) => name);
    expect(marked).toContain('MemoryDenyWriteExecute=');
    const said = page.replaceAll('\\|', '|');
    expect(
      marked.filter(
        (name) => !said.includes(`\`${name.replace('CapabilityBoundingSet=', '')}\``) && !said.includes(`\`${name}\``),
      ),
    ).toEqual([]);
  });

  it('is in docs/security.md, line by line', () => {
    const lines = readFileSync(UNIT, 'utf8').match(
      /^(Protect|Private|Restrict|Device|IPAddress|SystemCall|NoNew|Lock|Keyring|ReadWrite)\w+=|\bCAP_\w+/gm,
    );
    expect(lines).toContain('ProtectSystem=');
    expect([...new Set(lines)].filter((line) => !page.includes(line))).toEqual([]);
  });
});

describe("the sandbox of the guard's unit", () => {
  const own = page.slice(page.indexOf('## The guard')).replaceAll('\\|', '|');
  const said = (name: string): boolean => own.includes(`\`${name}\``);

  it(`is rated ${MOST_EXPOSURE} or lower, and docs/security.md has the figure and a reason for all that is marked [needs systemd-analyze 250]`, ({
    skip,
  }) => {
    if (!isThere) skip('no systemd-analyze that reads unit files');
    const [, rated = ''] = /Overall exposure level for nodewarden-guard\.service: ([\d.]+)/.exec(analyze(GUARD)) ?? [];
    expect(Number(rated)).toBeGreaterThan(0);
    expect(Number(rated)).toBeLessThanOrEqual(MOST_EXPOSURE);
    expect(own).toContain(`rates the unit ${rated} `);
    const marked = [...analyze(GUARD).matchAll(/^✗ (\S+)/gm)].map(([, name = '']) => name);
    expect(marked).toContain('PrivateNetwork=');
    expect(marked.filter((name) => !said(name))).toEqual([]);
  });
  it('has no capability and an own user, and starts only if it is configured', () => {
    const unit = readFileSync(GUARD, 'utf8');
    expect(unit).toContain('\nUser=nodewarden-guard\n');
    expect(unit).toContain('\nCapabilityBoundingSet=\n');
    expect(unit).toContain('\nConditionPathExists=/etc/nodewarden/guard.yaml\n');
  });
});
