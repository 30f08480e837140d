// The packages of which esbuild took bytes into the bundle, and what is said of them: NOTICE and SBOM.
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

const ACCEPTED = new Set([
  'MIT',
  'ISC',
  'Apache-2.0',
  '(Apache-2.0 AND BSD-3-Clause)',
  'BSD-2-Clause',
  'BSD-3-Clause',
  '0BSD',
  'BlueOak-1.0.0',
  'Unlicense',
]);

/** Packages whose package.json names no licence, or none of SPDX; what their licence file says was read by a person. */
const READ_BY_US = new Map([
  ['jsbi', 'Apache-2.0'],
  ['map-stream', 'MIT'],
  ['@nornagon/put', 'MIT'],
  ['pause-stream', 'MIT'],
]);

/**
 * In order of their directories; `licence` is an SPDX expression, `text` the licence file. `inputs`: paths of esbuild's
 * metafile, relative to `root`. Throws when a package has no licence that we know.
 */
export async function bundledPackages(root, inputs) {
  const directories = new Set();
  for (const input of inputs) {
    const match = /^((?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) directories.add(match[1]);
  }
  return await Promise.all([...directories].sort().map((directory) => readPackage(path.join(root, directory))));
}

async function readPackage(directory) {
  const { name, version, license } = JSON.parse(await readFile(path.join(directory, 'package.json'), 'utf8'));
  const licence = READ_BY_US.get(name) ?? license;
  if (!ACCEPTED.has(licence)) {
    throw new Error(`${name} ${version}: licence ${JSON.stringify(licence ?? null)} is not one we know`);
  }
  const file = (await readdir(directory)).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
  const text = file ? (await readFile(path.join(directory, file), 'utf8')).trim() : 'No licence file in the package.';
  return { name, version, licence, text };
}

export function noticeOf(project, packages) {
  return [
    `nodewarden ${project.version}, ${project.license}. The bundle contains code of the packages below.\n`,
    ...packages.map(({ name, version, licence, text }) => `${name} ${version}, ${licence}\n\n${text}\n`),
  ].join(`\n${'-'.repeat(80)}\n`);
}

/** A bill of materials, CycloneDX 1.6 as JSON. Without serial number and time, so that the same tree gives the same bytes. */
export function sbomOf({ name, version, license }, packages) {
  const components = new Map(packages.map((it) => [purlOf(it), componentOf('library', it)]));
  return `${JSON.stringify(
    {
      $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
      bomFormat: 'CycloneDX',
      specVersion: '1.6',
      version: 1,
      metadata: { component: componentOf('application', { name, version, licence: license }) },
      components: [...components.values()],
    },
    null,
    2,
  )}\n`;
}

function componentOf(type, { name, version, licence }) {
  const [, group, short] = /^(?:(@[^/]+)\/)?(.*)$/.exec(name);
  return {
    type,
    'bom-ref': purlOf({ name, version }),
    ...(group === undefined ? {} : { group }),
    name: short,
    version,
    licenses: [
      licence.includes(' ') ? { expression: licence.replace(/^\((.*)\)$/, '$1') } : { license: { id: licence } },
    ],
    purl: purlOf({ name, version }),
  };
}

function purlOf({ name, version }) {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}
