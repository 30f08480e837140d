import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from 'vitest';
import { noHungMount } from '../host/hung-mount.ts';
import { mountSlowFileSystem } from '../host/slow-mount.ts';
import { aDoctor, saidOf } from './a-doctor.ts';

const slowMissing = noHungMount === null ? '' : `[${noHungMount}]`;

describe('nodewarden doctor', () => {
  const doctor = aDoctor();
  const { configure, manifest, run, report, path } = doctor;
  beforeEach(() => configure());

  it('reports a blocking finding first, with the command that fixes it, and exits with 1', async () => {
    const { out, code, err } = await run();
    expect(err).toBe('');
    expect(code).toBe(1);
    expect(out).toMatch(
      /^2 blocking findings; .*\nnodewarden [^\n]*: mode standalone, Node\.js \d+\.\d+\.\d+\n\nblocking\n/,
    );
    expect(out).toContain(`  agent-not-running: nodewarden is not running (nothing listens on ${path('nw.sock')})`);
    expect(out).toContain(`\n    $ nodewarden run --config ${path('config.yaml')}\n`);
    expect(out).toContain(`  nothing-to-evict: no manifest in ${path('pods.d')} binds a pod: nothing can be evicted\n`);
    expect(out).toContain('\nfine\n');
  });

  it('reports every mistake in the configuration, and still checks everything else', async () => {
    writeFileSync(
      path('config.yaml'),
      'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nmodee: x\n',
    );
    const said = await report();
    expect(said.code).toBe(1);
    expect(saidOf(said, 'config-invalid').map(({ text }) => text)).toEqual([
      expect.stringContaining('config.yaml:3:1: modee: unknown field; did you mean mode?'),
    ]);
    expect(said.fine.map(({ code }) => code)).toContain('no-memory-controller');
  });

  it('reports a mistake in a manifest, with file and line', async () => {
    manifest('web', { cgroup: 'web', 'no-such': 'x' });
    const [finding] = saidOf(await report(), 'manifest-invalid');
    expect(finding).toMatchObject({ kind: 'blocking', mend: `nodewarden config check ${path('config.yaml')}` });
    expect(finding?.text).toContain(`${path('pods.d/web.yaml')}:7:5: `);
  });

  it('reports a field of a manifest that nothing reads, with file and line', async () => {
    manifest('web', { cgroup: 'web' }, '  prioritty: 1000\n');
    const [finding] = saidOf(await report(), 'manifest-warning');
    expect(finding).toMatchObject({ kind: 'warning', mend: `nodewarden config check ${path('config.yaml')}` });
    expect(finding?.text).toContain(`${path('pods.d/web.yaml')}:9:3: spec.prioritty: unknown field, without effect`);
  });

  it('reports a request of more memory than there is: others would be evicted before that pod', async () => {
    manifest('web', { cgroup: 'web' }, '  resources: { requests: { memory: 16Pi } }\n');
    expect(saidOf(await report(), 'manifest-warning')).toMatchObject([
      {
        text: expect.stringMatching(
          /^default\/web requests more memory than this node has \(\S+ \w+\): it is never above its request/,
        ),
      },
    ]);
  });

  it('reports a second manifest of one thing, which is ignored, and not that it declares no directory', async () => {
    manifest('one', { cgroup: 'nodewarden-test-absent', disk: path('pods.d') });
    manifest('two', { cgroup: 'nodewarden-test-absent' });
    const said = await report();
    expect(saidOf(said, 'binding-unresolved')).toEqual([
      expect.objectContaining({
        text: expect.stringMatching(/two\.yaml:6:\d+: .*\/one\.yaml:6:\d+: of the two manifests, this one is ignored/),
        mend: `nodewarden config check ${path('config.yaml')}`,
      }),
    ]);
    expect(saidOf(said, 'disk-usage-unknown')).toEqual([]);
  });

  it('says how to create a directory of manifests that does not exist', async () => {
    rmSync(path('pods.d'), { recursive: true });
    const [finding] = saidOf(await report(), 'manifest-invalid');
    const mend = `mkdir -p ${path('pods.d')}`;
    expect(finding).toMatchObject({
      text: `no manifests can be read: ${path('pods.d')} does not exist: ${mend}`,
      mend,
    });
  });

  it('does not say that nothing can be evicted if every pod is protected: one of them is, if no other is left', async () => {
    manifest('db', { cgroup: 'nodewarden-test-absent', protect: 'true' });
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    expect(saidOf(await report(), 'nothing-to-evict')).toEqual([]);
  });

  it('reports that nothing can be evicted if no pod that is bound may be', async () => {
    configure('evictionHard: { memory.available: 100Mi }');
    manifest('db', { cgroup: 'nodewarden-test-absent', 'evict-for': 'disk,pids' });
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    expect(saidOf(await report(), 'nothing-to-evict')[0]?.text).toBe(
      '1 pod is bound to nothing that may be stopped here, and the other one is critical, excluded by evict-for from every resource that has a threshold, or would risk a reset of the machine: nothing can be evicted',
    );
  });

  it('does not say so of pods that it has not examined', async () => {
    const names = Array.from({ length: 501 }, (_, i) => `p${String(i).padStart(3, '0')}`);
    for (const name of names)
      manifest(name, { cgroup: `nodewarden-test-${name}`, 'evict-for': name === 'p500' ? 'memory' : 'none' });
    const said = await report();
    expect(saidOf(said, 'nothing-to-evict')).toEqual([]);
    const ofAll = said.fine.filter(({ text }) => /\b(all|every)\b/.test(text)).map(({ code }) => code);
    expect(
      ofAll.filter((code) => ['binding-unresolved', 'pod-unmeasured', 'disk-usage-unknown'].includes(code)),
    ).toEqual([]);
  });

  it.skipIf(slowMissing !== '')(`does not say so while not all manifests are read ${slowMissing}`, async () => {
    const names = Array.from({ length: 40 }, (_, i) => `p${String(i).padStart(2, '0')}`);
    for (const name of names)
      manifest(name, { cgroup: `nodewarden-test-${name}`, 'evict-for': name === 'p39' ? 'memory' : 'none' });
    const { order, release } = await mountSlowFileSystem(path('pods.d'));
    try {
      order('delay 0.07');
      expect(saidOf(await report(), 'nothing-to-evict')).toMatchObject([
        { kind: 'unknown', text: expect.stringContaining('not all of them were read within 3 s') },
      ]);
    } finally {
      release();
    }
  });

  it('reports that nothing can be evicted if no pod may be evicted for any threshold', async () => {
    configure('evictionHard: { memory.available: 100Mi }');
    manifest('db', { cgroup: 'nodewarden-test-absent', 'evict-for': 'disk,pids' });
    expect(saidOf(await report(), 'nothing-to-evict')).toMatchObject([{ kind: 'blocking' }]);
    configure('evictionHard: { memory.available: 100Mi, pid.available: 10% }');
    expect(saidOf(await report(), 'nothing-to-evict')).toEqual([]);
  });

  it('reports that others are evicted for a pod that is never evicted and not limited to its request', async () => {
    const resources = (limit: string) => `  resources: { requests: { memory: 64Mi }, limits: { memory: ${limit} } }\n`;
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    manifest('db', { cgroup: 'nodewarden-test-other', 'evict-for': 'none' });
    const [finding] = saidOf(await report(), 'evict-for-unbounded');
    expect(finding?.text).toMatch(
      /^default\/db is never evicted for memory \(nodewarden\.dev\/evict-for: none\): it requests none, and for whatever it uses another pod is evicted/,
    );
    manifest('db', { cgroup: 'nodewarden-test-other', 'evict-for': 'disk' }, resources('128Mi'));
    expect(saidOf(await report(), 'evict-for-unbounded')[0]?.text).toContain('above its request of 64 MiB');
  });

  it('reports a program that others can change, or that is missing, with a command that shows its path', async () => {
    const program = path('tell');
    writeFileSync(program, '#!/bin/sh\n');
    chmodSync(program, 0o777);
    configure(
      `notify: { command: [${program}] }`,
      `preKill: { command: [${path('gone')}] }`,
      'evictionHard: { memory.available: 100Mi, nodefs.available: 1% }',
      'reclaimCommands: [{ signal: nodefs.available, command: [/], timeout: 1s }]',
    );
    const said = saidOf(await report(), 'program-unsafe');
    expect(said.map(({ text }) => text.replace(/^.*?: /, ''))).toEqual([
      expect.stringMatching(/^notify\.command: .*\/tell belongs to user \d+ and has mode 0777, .* chmod go-w /),
      `preKill.command: ${path('gone')} does not exist`,
      'reclaimCommands[0].command: / is not a file',
    ]);
    expect(said[0]?.mend).toBe(`namei -l ${program}`);
    chmodSync(program, 0o755);
    configure(`notify: { command: [${program}] }`, 'preKill: { command: [/bin/true] }');
    expect(saidOf(await report(), 'program-unsafe')).toEqual([]);
  });

  it('gives the configured directories in its commands', async () => {
    expect(saidOf(await report(), 'nothing-to-evict')).toMatchObject([{ mend: `ls -l ${path('pods.d')}` }]);
    mkdirSync(path('state'));
    chmodSync(path('state'), 0o777);
    expect(saidOf(await report(), 'own-directories')).toMatchObject([
      { mend: `ls -ld ${path('run')} ${path('state')}` },
    ]);
  });

  it('reports thresholds that are missing, and ones without effect', async () => {
    configure('evictionHard: { memory.available: 100Mi }');
    const said = await report();
    expect(saidOf(said, 'no-pid-threshold')[0]?.text).toContain(
      'so a fork bomb is not stopped; add pid.available: "10%"',
    );
    expect(saidOf(said, 'config-warning')[0]?.text).toContain('naming one signal drops the defaults');
    configure('evictionHard: {}');
    expect(saidOf(await report(), 'no-threshold')).toMatchObject([{ kind: 'blocking' }]);
  });

  it('reports a threshold that is already met', async () => {
    configure('evictionHard: { memory.available: 99% }');
    expect(saidOf(await report(), 'threshold-met')[0]?.text).toContain('memory.available is already below');
  });

  it('reports that a soft one would wait for its grace period', async () => {
    configure('evictionSoft: { memory.available: 99% }', 'evictionSoftGracePeriod: { memory.available: 1m30s }');
    const [finding] = saidOf(await report(), 'threshold-met');
    expect(finding?.text).toContain('is available now, so its grace period of 1m30s would begin at once');
  });

  it('reports that a dry run evicts nothing', async () => {
    configure('dryRun: true');
    expect(saidOf(await report(), 'dry-run')).toMatchObject([{ kind: 'warning' }]);
  });

  it('reports pods without a disk directory, if a disk has a threshold', async () => {
    manifest('web', { cgroup: 'nodewarden-test-absent' });
    manifest('db', { cgroup: 'nodewarden-test-other', disk: path('state') });
    const [finding] = saidOf(await report(), 'disk-usage-unknown');
    expect(finding?.text).toContain('1 pod declares no directory');
    expect(finding?.text).toContain('default/web');
    configure('evictionHard: { memory.available: 100Mi }');
    expect(saidOf(await report(), 'disk-usage-unknown')).toEqual([]);
  });

  it('rejects directories that others can write, as the agent does', async () => {
    mkdirSync(path('run'));
    chmodSync(path('run'), 0o777);
    const [finding] = saidOf(await report(), 'own-directories');
    expect(finding?.kind).toBe('blocking');
    expect(finding?.text).toContain(`${path('run')} belongs to user`);
  });

  it('prints nothing with which a name could trick a terminal or a shell', async () => {
    writeFileSync(path('pods.d/a\x1b[2Jb.yaml'), 'x', { mode: 0o644 });
    const { out } = await run();
    expect(out).toContain('\\u001b');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
  });
});
