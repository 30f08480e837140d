import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cgroupOfUnit, currentRun, findUnit, hasRun } from '../../src/host/systemd/unit-path.ts';

describe('where systemd puts a unit', () => {
  // Each of these was read from a running systemd 252 (systemctl show -P ControlGroup).
  it.each([
    ['web.service', null, '/system.slice/web.service'],
    ['web@1.service', null, '/system.slice/system-web.slice/web@1.service'],
    ['web-app@1.service', null, '/system.slice/system-web\\x2dapp.slice/web-app@1.service'],
    ['web\\x2dapp@1.service', null, '/system.slice/system-web\\x5cx2dapp.slice/web\\x2dapp@1.service'],
    ['run-r1.scope', null, '/system.slice/run-r1.scope'],
    ['web.service', 'batch-night.slice', '/batch.slice/batch-night.slice/web.service'],
    ['web.service', '-.slice', '/web.service'],
    ['batch-night.slice', '-.slice', '/batch.slice/batch-night.slice'],
    ['memory.service', null, '/system.slice/_memory.service'],
    ['_web.service', null, '/system.slice/__web.service'],
    ['memoryhog.service', null, '/system.slice/memoryhog.service'],
  ])('%s in %s is %s', (unit, slice, path) => {
    expect(cgroupOfUnit(unit, slice)).toBe(path);
  });
});

describe('a unit whose cgroup nobody has reported', () => {
  it('is found in whatever slice it runs, but never in what a tenant created below a service', () => {
    const root = mkdtempSync(join(tmpdir(), 'nodewarden-slices-'));
    mkdirSync(join(root, 'system.slice/web.service/fake.slice/bomb.service'), { recursive: true });
    mkdirSync(join(root, 'user.slice/user-1.slice/user@1.service/app.slice/bomb.service'), { recursive: true });
    mkdirSync(join(root, 'system.slice/_memory.service'));
    expect(findUnit(root, 'bomb.service')).toBeNull();
    mkdirSync(join(root, 'batch.slice/batch-night.slice/bomb.service'), { recursive: true });
    expect(findUnit(root, 'bomb.service')).toBe('/batch.slice/batch-night.slice/bomb.service');
    expect(findUnit(root, 'memory.service')).toBe('/system.slice/_memory.service');
    rmSync(root, { recursive: true });
  });
});

describe('the current run of a unit', () => {
  it('is what systemd recorded at its start, or unknown', () => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-units-'));
    const id = '0123456789abcdef0123456789abcdef';
    symlinkSync(id, join(directory, 'invocation:web.service'));
    symlinkSync('../x', join(directory, 'invocation:bad.service'));
    expect(hasRun('web.service', directory)).toBe(true);
    expect(hasRun('none.service', directory)).toBe(false);
    expect(currentRun('web.service', directory)).toEqual({ known: true, value: id });
    expect(currentRun('bad.service', directory)).toMatchObject({ known: false, why: 'malformed' });
    expect(currentRun('none.service', directory)).toMatchObject({ known: false, why: 'absent' });
    rmSync(directory, { recursive: true });
  });
});
