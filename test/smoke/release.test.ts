import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, describe, expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DIST = path.join(ROOT, 'dist');
/** Other circumstances than those of a first build: none of them may be in the bytes. */
const ELSEWHEN = { TZ: 'Pacific/Kiritimati', LC_ALL: 'C.UTF-8' };

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-release-'));
afterAll(() => fs.rmSync(scratch, { recursive: true }));

/** With a umask of 077. */
function run(command: string, args: readonly string[], cwd = ROOT): string {
  const env = { ...process.env, ...ELSEWHEN };
  return execFileSync('sh', ['-c', 'umask 077; exec "$0" "$@"', command, ...args], { cwd, env, encoding: 'utf8' });
}

function bytesUnder(directory: string): ReadonlyMap<string, string> {
  const names = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort();
  const files = names.filter((name) => fs.statSync(path.join(directory, name)).isFile() && !name.endsWith('.tmp'));
  // A map names its sources by their way from where it lies.
  const read = (name: string): string =>
    fs.readFileSync(path.join(directory, name), 'latin1').replace(/"sources": \[.*?\]/s, '');
  return new Map(files.map((name) => [name, read(name)]));
}

describe('the same tree gives the same bytes', () => {
  it('of the bundle', () => {
    run(process.execPath, ['scripts/build.mjs', '--outdir', path.join(scratch, 'bundle')]);
    const [first, second] = [bytesUnder(DIST), bytesUnder(path.join(scratch, 'bundle'))];
    expect([...second.keys()]).toEqual([...first.keys()]);
    expect([...second].filter(([name, bytes]) => bytes !== first.get(name)).map(([name]) => name)).toEqual([]);
  }, 600_000);
  it('of the tarball', () => {
    const sums = ['one', 'two'].map((name) => {
      const said = run(process.execPath, ['scripts/dist.mjs', '--outdir', path.join(scratch, name)]);
      return /sha256 (\w+)/.exec(said)?.[1];
    });
    expect(sums[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(sums[1]).toBe(sums[0]);
  }, 600_000);
});

describe('the bill of materials', () => {
  const sbom = JSON.parse(fs.readFileSync(path.join(DIST, 'sbom.cdx.json'), 'utf8'));

  it('is valid CycloneDX 1.6', () => {
    const names = ['bom-1.6', 'spdx', 'jsf-0.82', 'cryptography-defs'].map((name) => `${name}.SNAPSHOT.schema.json`);
    const directory = path.join(ROOT, 'node_modules/@cyclonedx/cyclonedx-library/res/schema');
    const [main, ...others] = names.map((name) => JSON.parse(fs.readFileSync(path.join(directory, name), 'utf8')));
    const ajv = new Ajv({ strict: false, validateFormats: false });
    // By the names under which the first refers to them.
    for (const [at, schema] of others.entries()) ajv.addSchema(schema, `http://cyclonedx.org/schema/${names[at + 1]}`);
    const validate = ajv.compile(main);
    expect(validate(sbom) ? [] : validate.errors).toEqual([]);
    expect(validate({ ...sbom, components: [{ type: 'library' }] })).toBe(false);
  });
  it('lists each package whose licence is in NOTICE', () => {
    const notice = fs.readFileSync(path.join(DIST, 'NOTICE'), 'utf8');
    const noticed = [...notice.matchAll(/^-{80}\n(\S+) (\S+), /gm)].map(([, name, version]) => `${name}@${version}`);
    const listed = sbom.components.map(
      ({ group, name, version }: { readonly group?: string; readonly name: string; readonly version: string }) =>
        `${group === undefined ? '' : `${group}/`}${name}@${version}`,
    );
    expect(noticed.length).toBeGreaterThan(10);
    expect(listed.sort()).toEqual([...new Set(noticed)].sort());
  });
});

describe('the npm package', () => {
  it('has no dependencies: what it needs is bundled', () => {
    expect(JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')).dependencies).toBeUndefined();
  });
  it('is installed without a registry, and simulates', () => {
    const tarball = run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', scratch]).trim();
    const home = path.join(scratch, 'laptop');
    fs.mkdirSync(home);
    fs.writeFileSync(path.join(home, 'package.json'), '{}');
    run('npm', ['install', '--offline', '--no-audit', '--no-fund', path.join(scratch, tarball)], home);
    const npx = (...args: readonly string[]): string => run('npx', ['--offline', 'nodewarden', ...args], home);
    expect(npx('--help')).toContain('Usage: nodewarden');
    const config = 'node_modules/nodewarden/config';
    expect(npx('config', 'check', `${config}/config.yaml`)).toContain('config.yaml: valid');
    expect(npx('simulate', '--check', `${config}/scenarios/memory-leak.yaml`)).toContain('1 scenario');
  }, 600_000);
});
