import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readUnitStart } from '../lab/unit-start.ts';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const DIST = path.join(ROOT, 'dist');
/** A native addon could not be installed without a compiler, and would end with another Node. */
const NATIVE = /\.node["'`]|node-gyp|\bbindings\(["'`]|process\.binding/;

/** Asked for inside a try: by dbus-next on session buses and for descriptors, by systeminformation on a Mac. */
const NEVER_LOADED = ['x11', 'usocket', 'osx-temperature-sensor', 'macos-temperature-sensor'];

const codeFiles = (): readonly string[] => fs.readdirSync(DIST).filter((file) => file.endsWith('.js'));

describe('the bundle', () => {
  it('is one executable file, with lazily loaded ones and its own package.json beside it', () => {
    expect(codeFiles()).toEqual(expect.arrayContaining(['nodewarden.js', 'systeminformation.js']));
    expect(fs.statSync(path.join(DIST, 'nodewarden.js')).mode & 0o777).toBe(0o755);
    expect(fs.readFileSync(path.join(DIST, 'nodewarden.js'), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
    expect(fs.readFileSync(path.join(DIST, 'package.json'), 'utf8')).toBe('{"type":"commonjs"}\n');
  });
  it('contains nothing native', () => {
    for (const file of codeFiles())
      expect(NATIVE.exec(fs.readFileSync(path.join(DIST, file), 'utf8'))?.[0]).toBeUndefined();
    for (const planted of [
      'require("./x.node")',
      'require("bindings")("x"),bindings("y")',
      'process.binding("pipe_wrap")',
    ]) {
      expect(planted).toMatch(NATIVE);
    }
  });
  it('requires nothing but built-in modules and the files beside it', () => {
    const known = new Set([...codeFiles().map((file) => `./${file}`), ...NEVER_LOADED]);
    for (const file of codeFiles()) {
      const code = fs.readFileSync(path.join(DIST, file), 'utf8');
      const wanted = [...code.matchAll(/\brequire\("([^"]+)"\)/g)].map((match) => match[1] ?? '');
      expect(wanted.filter((name) => !known.has(name) && !isBuiltIn(name))).toEqual([]);
    }
  });
  it('loads nothing into the daemon that only other commands need', () => {
    const read = (file: string): string => fs.readFileSync(path.join(DIST, file), 'utf8');
    const daemon = read('nodewarden.js') + read('cli-daemon-program.js');
    const all = read('cli-program.js');
    // Of systeminformation, of introspection on D-Bus, of `simulate` and of `demo`.
    for (const other of ['dmidecode', 'xmlns', 'summaryPatch', 'nodewarden-demo', 'fencing-']) {
      expect(daemon).not.toContain(other);
    }
    expect(read('guard-run.js')).toContain('fencing-');
    for (const other of ['summaryPatch', 'nodewarden-demo']) expect(all).toContain(other);
    expect(read('systeminformation.js')).toContain('dmidecode');
  });
  it('is Latin-1: one letter beyond it doubles the whole text of a file in memory', () => {
    for (const file of ['nodewarden.js', 'cli-daemon-program.js', 'cli-guard-program.js', 'guard-run.js']) {
      expect(fs.readFileSync(path.join(DIST, file), 'utf8')).not.toMatch(/[\u0100-\uffff]/);
    }
  });
  it('names every package in it with a licence', () => {
    const notice = fs.readFileSync(path.join(DIST, 'NOTICE'), 'utf8');
    for (const name of ['commander', 'pino', 'yaml', 'zod', 'dbus-next', 'systeminformation', 'picocolors']) {
      expect(notice).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+, [A-Za-z0-9.-]+$`, 'm'));
    }
    for (const absent of ['esbuild ', 'xml2js ', 'thread-stream ']) expect(notice).not.toContain(absent);
  });
  it('runs from a directory of its own, under the flags of the unit', () => {
    const elsewhere = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bundle-'));
    try {
      fs.cpSync(DIST, elsewhere, { recursive: true });
      const { flags, environment } = readUnitStart(path.join(ROOT, 'systemd/nodewarden.service'));
      expect(flags).not.toEqual([]);
      const printed = execFileSync(process.execPath, [...flags, path.join(elsewhere, 'nodewarden.js'), '--version'], {
        encoding: 'utf8',
        cwd: '/',
        env: { ...process.env, ...environment },
      });
      expect(printed.trim()).toBe(JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')).version);
    } finally {
      fs.rmSync(elsewhere, { recursive: true });
    }
  });
});

function isBuiltIn(name: string): boolean {
  return process.getBuiltinModule(name.startsWith('node:') ? name : `node:${name}`) !== undefined;
}
