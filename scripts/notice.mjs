// The NOTICE of a bundle: every package of which esbuild took bytes, with its licence.
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

/** `inputs`: paths of esbuild's metafile, relative to `root`. Throws when a package has no licence that we know. */
export async function noticeOf(root, project, inputs) {
  const directories = new Set();
  for (const input of inputs) {
    const match = /^((?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) directories.add(match[1]);
  }
  const sections = [];
  for (const directory of [...directories].sort()) sections.push(await sectionOf(path.join(root, directory)));
  return [
    `nodewarden ${project.version}, ${project.license}. The bundle contains code of the packages below.\n`,
    ...sections,
  ].join(`\n${'-'.repeat(80)}\n`);
}

async function sectionOf(directory) {
  const about = JSON.parse(await readFile(path.join(directory, 'package.json'), 'utf8'));
  const licence = READ_BY_US.get(about.name) ?? about.license;
  if (!ACCEPTED.has(licence)) {
    throw new Error(`${about.name} ${about.version}: licence ${JSON.stringify(licence ?? null)} is not one we know`);
  }
  const file = (await readdir(directory)).find((name) => /^(licen[cs]e|copying)/i.test(name));
  const text = file ? (await readFile(path.join(directory, file), 'utf8')).trim() : `No licence file in the package.`;
  return `${about.name} ${about.version}, ${licence}\n\n${text}\n`;
}
