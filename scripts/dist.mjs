// Makes release/nodewarden-<version>.tar.gz: what install.sh needs, nothing else. The same tree gives the same bytes:
// sorted, one time stamp (of the last commit, or SOURCE_DATE_EPOCH), owner 0:0, modes from a table, no gzip header time.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { commitSeconds } from './commit-seconds.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values } = parseArgs({ options: { outdir: { type: 'string' } } });
const outdir = path.resolve(root, values.outdir ?? 'release');
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const name = `nodewarden-${version}`;

/** What its pages link is there too. */
const SHIPPED = [
  ...[
    'dist',
    'bin',
    'systemd',
    'config',
    'install.sh',
    'LICENSE',
    'README.md',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'docs',
    'contrib',
  ],
  ...['bench/README.md', 'bench/RESULTS.md', 'bench/results/reaction.svg', 'scripts/node-kubeconfig'],
];
const EXECUTABLE = [
  'dist/nodewarden.js',
  'bin/nodewarden',
  'systemd/settle-realtime',
  'scripts/node-kubeconfig',
  'install.sh',
];

const staging = mkdtempSync(path.join(tmpdir(), 'nodewarden-dist-'));
try {
  const tree = path.join(staging, name);
  mkdirSync(tree);
  for (const item of SHIPPED) {
    if (!existsSync(path.join(root, item))) throw new Error(`${item} is missing; dist/ is made by npm run build`);
    cpSync(path.join(root, item), path.join(tree, item), { recursive: true, filter: (file) => !file.endsWith('.tmp') });
  }
  cpSync(path.join(root, 'dist/NOTICE'), path.join(tree, 'NOTICE'));
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', tree]);
  execFileSync('find', [tree, '-type', 'f', '-exec', 'chmod', '644', '{}', '+']);
  for (const file of EXECUTABLE) execFileSync('chmod', ['755', path.join(tree, file)]);
  const tar = execFileSync(
    'tar',
    [
      '--create',
      '--format=ustar',
      '--sort=name',
      `--mtime=@${commitSeconds(root)}`,
      '--owner=0',
      '--group=0',
      '--numeric-owner',
      name,
    ],
    { cwd: staging, maxBuffer: 1 << 28 },
  );
  // gzip, not node:zlib: zlib's bytes differ between Node versions.
  const packed = execFileSync('gzip', ['-9', '-n'], { input: tar, maxBuffer: 1 << 28 });
  mkdirSync(outdir, { recursive: true });
  const file = path.join(outdir, `${name}.tar.gz`);
  writeFileSync(`${file}.tmp`, packed);
  renameSync(`${file}.tmp`, file);
  const sum = createHash('sha256').update(packed).digest('hex');
  writeFileSync(`${file}.sha256`, `${sum}  ${name}.tar.gz\n`);
  process.stdout.write(`${path.relative(root, file)}: ${Math.round(packed.length / 1024)} KiB, sha256 ${sum}\n`);
} finally {
  rmSync(staging, { recursive: true });
}
