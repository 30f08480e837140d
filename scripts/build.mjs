// Builds dist/: one CommonJS file for the agent, and beside it one file for everything that src/ loads by a dynamic
// import, so that what only one command needs is not in memory of the daemon; NOTICE and SBOM of what is in them; and, from the
// commands that are in them, man pages and completions. `--outdir DIR` builds elsewhere, `--entry FILE` something else than
// src/main.ts.
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build, transform } from 'esbuild';
import { bundledPackages, noticeOf, sbomOf } from './bundled.mjs';
import { commandsOf } from './commands.mjs';
import { bashCompletion, fishCompletion, zshCompletion } from './completion.mjs';
import { commandsPage, configurationPage, guardConfigurationPage } from './man.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { values } = parseArgs({ options: { outdir: { type: 'string' }, entry: { type: 'string' } } });
const outdir = path.resolve(root, values.outdir ?? 'dist');
const main = path.resolve(root, values.entry ?? 'src/main.ts');

/** Files still to be built: name in dist/ (without .js) -> entry point. Grows while dynamic imports are found. */
const entries = new Map([['nodewarden', main]]);

/** Turns `import('./demo/run.ts')` into a load of ./demo-run.js beside the bundle, and remembers to build that. */
const beside = {
  name: 'beside',
  setup(api) {
    api.onResolve({ filter: /.*/ }, (found) => {
      const isOurs = found.importer !== '' && !found.importer.includes('node_modules');
      if (found.kind !== 'dynamic-import' || !isOurs || found.path.startsWith('node:')) return undefined;
      const isFile = found.path.startsWith('.');
      const target = isFile ? path.resolve(found.resolveDir, found.path) : found.path;
      const name = (isFile ? path.relative(path.dirname(main), target) : target)
        .replace(/\.ts$/, '')
        .replace(/[^a-zA-Z0-9]+/g, '-');
      entries.set(name, target);
      return { path: `./${name}.js`, external: true };
    });
  },
};

/**
 * What our packages load and we do not use: introspection of D-Bus (xml2js), a bus behind a command (event-stream), a log
 * written by another thread (thread-stream), introspection of gRPC (proto-loader, which would bring protobufjs); of the
 * Kubernetes client, which is asked for what a kubeconfig says, its own HTTP client (undici), proxies, OpenID Connect, and
 * what evaluates the answers of plugins (jsonpath-plus); of the Prometheus client, summaries (tdigest) and metrics of the
 * process (@opentelemetry/api). Who uses such a one all the same finds no function there.
 */
const UNUSED = [
  ...['xml2js', 'event-stream', 'thread-stream', '@grpc/proto-loader'],
  ...['undici', 'openid-client', 'socks', 'socks-proxy-agent', 'hpagent', 'jsonpath-plus'],
  ...['tdigest', '@opentelemetry/api'],
];
const unused = {
  name: 'unused',
  setup(api) {
    api.onResolve({ filter: new RegExp(`^(${UNUSED.join('|')})$`) }, ({ path: name }) => ({
      path: name,
      namespace: 'unused',
    }));
    // The clients of the API's 700 kinds, half a megabyte, which are only for who makes one.
    api.onResolve({ filter: /^\.\/gen\/index\.js$/ }, ({ path: name, importer }) =>
      importer.endsWith('@kubernetes/client-node/dist/config.js') ? { path: name, namespace: 'unused' } : undefined,
    );
    // dbus-next makes a Builder for each connection, and keeps it for who introspects.
    api.onLoad({ filter: /.*/, namespace: 'unused' }, () => ({ contents: 'exports.Builder = class Unused {};' }));
  },
};

const oldNode = await readFile(path.join(root, 'scripts/old-node.cjs'), 'utf8');
const { code: refuseOldNode } = await transform(oldNode, { minify: true, target: 'es5' });
/** The file that starts it all refuses an old Node.js, which must be able to read it to the end for that. */
const FIRST = { target: 'es2015', banner: { js: `#!/usr/bin/env node\n${refuseOldNode.trim()}` } };

async function bundle(name, entry) {
  return await build({
    absWorkingDir: root,
    entryPoints: { [name]: entry },
    outdir,
    write: false,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'external',
    metafile: true,
    logLevel: 'warning',
    // dbus-next asks for both in a try: x11 for session buses, usocket for descriptors. We use neither.
    external: ['x11', 'usocket'],
    // Its CommonJS file requires in a way that cannot be bundled.
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
    // import() of a CommonJS file through Node's ESM loader starts four pool threads and sees no named exports.
    supported: { 'dynamic-import': false },
    ...(name === 'nodewarden' && values.entry === undefined ? FIRST : {}),
    plugins: [beside, unused],
  });
}

/** By rename, so that a test or a demo that runs from dist/ meanwhile never reads half a file. */
async function put(file, content, mode) {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, content);
  await chmod(temporary, mode);
  await rename(temporary, file);
}

const PAGES = path.join(root, 'src/page');

/**
 * The page of a directory as one file that loads nothing: its policy names what of it may run, by hash. `</` would end
 * the element that it stands in.
 */
async function page(source) {
  const options = {
    absWorkingDir: root,
    bundle: true,
    minify: true,
    write: false,
    charset: 'utf8',
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  };
  const script = await build({
    ...options,
    entryPoints: [path.join(source, 'main.ts')],
    format: 'esm',
    target: 'es2022',
  });
  const style = await build({ ...options, entryPoints: [path.join(source, 'page.css')] });
  const [js, css] = [script, style].map(({ outputFiles }) => outputFiles[0].text.trim().replaceAll('</', '<\\/'));
  const hashOf = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const parts = {
    policy: `default-src 'none'; script-src ${hashOf(js)}; style-src ${hashOf(css)}; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'`,
    style: css,
    script: js,
  };
  const [shell, body] = await Promise.all(
    [path.join(PAGES, 'shell.html'), path.join(source, 'page.html')].map((file) => readFile(file, 'utf8')),
  );
  const html = shell
    .replace('<!-- body -->', () => body.trim())
    .replace(/(?<=content=")(policy)(?=")|\/\* (style|script) \*\//g, (_, policy, rest) => parts[policy ?? rest]);
  return { html, metafiles: [script.metafile, style.metafile] };
}

const written = new Set(['package.json', 'NOTICE', 'sbom.cdx.json']);
const inputs = new Set();
const note = (output) => {
  for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) if (bytesInOutput > 0) inputs.add(input);
};
await mkdir(outdir, { recursive: true });
for (const [name, entry] of entries) {
  const { outputFiles, metafile } = await bundle(name, entry);
  for (const file of outputFiles) {
    // An empty file of legal comments says nothing.
    if (file.contents.length === 0) continue;
    written.add(path.basename(file.path));
    await put(file.path, file.contents, path.basename(file.path) === 'nodewarden.js' ? 0o755 : 0o644);
  }
  Object.values(metafile.outputs).forEach(note);
}
if (values.entry === undefined) {
  for (const [name, source] of [
    ['page.html', PAGES],
    ['guard-page.html', path.join(PAGES, 'guard')],
  ]) {
    const { html, metafiles } = await page(source);
    await put(path.join(outdir, name), html, 0o644);
    written.add(name);
    for (const { outputs } of metafiles) Object.values(outputs).forEach(note);
  }
}
// The repository's package.json says "module"; the bundle is CommonJS wherever it lies.
await put(path.join(outdir, 'package.json'), '{"type":"commonjs"}\n', 0o644);
const project = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'));
const packages = await bundledPackages(root, inputs);
await put(path.join(outdir, 'NOTICE'), noticeOf(project, packages), 0o644);
await put(path.join(outdir, 'sbom.cdx.json'), sbomOf(project, packages), 0o644);
if (values.entry === undefined) {
  const { createProgram, allCommands } = createRequire(import.meta.url)(path.join(outdir, 'cli-program.js'));
  const commands = commandsOf(createProgram(allCommands()));
  const schemaIn = async (name) => JSON.parse(await readFile(path.join(root, 'config', name), 'utf8'));
  const pages = {
    'man/nodewarden.1': commandsPage(commands, project.version),
    'man/nodewarden.5': configurationPage(await schemaIn('schema.json'), project.version),
    'man/nodewarden-guard.5': guardConfigurationPage(await schemaIn('guard-schema.json'), project.version),
    'completion/nodewarden': bashCompletion(commands),
    'completion/_nodewarden': zshCompletion(commands),
    'completion/nodewarden.fish': fishCompletion(commands),
  };
  for (const [name, content] of Object.entries(pages)) {
    await mkdir(path.join(outdir, path.dirname(name)), { recursive: true });
    await put(path.join(outdir, name), content, 0o644);
    written.add(path.dirname(name));
  }
}
for (const file of await readdir(outdir)) {
  if (!written.has(file) && !file.endsWith('.tmp')) await rm(path.join(outdir, file), { recursive: true });
}
