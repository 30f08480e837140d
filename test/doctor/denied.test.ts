import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { aDoctor, codesOf, saidOf } from './a-doctor.ts';

describe.skipIf(process.getuid?.() !== 0)(
  'nodewarden doctor of a user who may not read everything [needs root]',
  () => {
    const doctor = aDoctor();
    const { configure, manifest, path, reportToNobody } = doctor;
    beforeEach(() => {
      configure('evictionHard: { memory.available: 100Mi, pid.available: 10% }');
      manifest('web', { cgroup: 'nodewarden-test-absent' });
      mkdirSync(path('run'), { mode: 0o755 });
      mkdirSync(path('state'), { mode: 0o755 });
    });

    const besideKubelet = (): void => {
      configure('mode: kubelet', `kubernetes: { kubeconfig: ${path('kubeconfig')}, nodeName: node-1 }`);
      writeFileSync(path('kubeconfig'), 'apiVersion: v1\n', { mode: 0o600 });
    };
    const notify = (): void => {
      configure(`notify: { command: [${path('private/tell')}] }`);
      mkdirSync(path('private'), { mode: 0o700 });
    };
    const OF_PODS = ['manifest-invalid', 'nothing-to-evict', 'memory-outside-pods'];
    it.each([
      {
        denied: 'the configuration',
        deny: () => chmodSync(path('config.yaml'), 0o600),
        codes: ['config-invalid', 'agent-not-running'],
      },
      { denied: 'a manifest', deny: () => chmodSync(path('pods.d/web.yaml'), 0o600), codes: OF_PODS },
      { denied: 'the directory of the manifests', deny: () => chmodSync(path('pods.d'), 0o700), codes: OF_PODS },
      { denied: 'the kubeconfig', deny: besideKubelet, codes: ['kubeconfig-unusable'] },
      { denied: 'a program', deny: notify, codes: ['program-unsafe'] },
    ])('$denied: says that it is not known, and no verdict about it', async ({ deny, codes }) => {
      deny();
      const said = await reportToNobody();
      expect(codesOf(said, 'unknown')).toEqual(expect.arrayContaining([...codes]));
      const others = said.findings.filter(({ kind }) => kind !== 'unknown').map(({ code }) => code);
      expect([...others, ...said.fine.map(({ code }) => code)].filter((code) => codes.includes(code))).toEqual([]);
    });

    it('what the agent keeps of a manifest: does not say that nothing in it is used', async () => {
      writeFileSync(path('pods.d/web.yaml'), 'kind: Pod\n', { mode: 0o644 });
      writeFileSync(path('run/manifests-last-good.json'), '{}', { mode: 0o600 });
      const said = await reportToNobody();
      expect(saidOf(said, 'manifest-invalid')[0]?.text).toMatch(
        /; whether its last good version is in force is not known$/,
      );
      expect(saidOf(said, 'nothing-to-evict')).toMatchObject([{ kind: 'unknown' }]);
    });

    it('the directory of the manifests: config check does not say that it binds nobody', async () => {
      chmodSync(path('pods.d'), 0o700);
      const { out, err, code } = await doctor.runAsNobody(['config', 'check', path('config.yaml')]);
      expect(err).toContain(`${path('pods.d')}: EACCES`);
      expect(out).not.toContain('nothing can be evicted');
      expect(code).toBe(2);
    });

    it('the directory in which a kubelet runs: says that one runs', async () => {
      copyFileSync('/bin/sleep', path('kubelet'));
      chmodSync(path('kubelet'), 0o755);
      const kubelet = spawn(path('kubelet'), ['600'], { stdio: 'ignore' });
      onTestFinished(() => void kubelet.kill('SIGKILL'));
      expect(saidOf(await reportToNobody(), 'kubelet-beside-standalone')).toMatchObject([{ kind: 'warning' }]);
    });
  },
);
