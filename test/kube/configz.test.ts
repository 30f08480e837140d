import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { readConfigz } from '../../src/kube/api/configz.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';

const CONFIG = { evictionHard: { 'memory.available': '2Gi' } };

describe('the configuration that a kubelet reports', () => {
  let authority: Authority;
  let stranger: Authority;
  beforeAll(() => {
    authority = createAuthority();
    stranger = createAuthority();
    for (const { issue } of [authority, stranger]) issue('kubelet', '/CN=node-1', 'subjectAltName=DNS:node-1');
  });
  afterAll(() => {
    authority.remove();
    stranger.remove();
  });

  /** A kubelet whose certificate is of `by`, and that lets in whom the cluster knows. */
  async function ask(by: Authority, answer: { status: number; body: object }, pki: string | null = null) {
    const kubelet = createServer(
      {
        key: by.read('kubelet.key'),
        cert: by.read('kubelet.crt'),
        ca: authority.read('ca.crt'),
        requestCert: true,
        rejectUnauthorized: false,
      },
      ({ url, socket }, response) => {
        const isKnown = (socket as TLSSocket).authorized && url === '/configz';
        response.writeHead(isKnown ? answer.status : 401).end(JSON.stringify(answer.body));
      },
    );
    const directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-'));
    onTestFinished(() => {
      kubelet.close();
      rmSync(directory, { recursive: true });
    });
    if (pki !== null) {
      mkdirSync(`${directory}/pki`);
      writeFileSync(`${directory}/pki/kubelet.crt`, pki);
    }
    await new Promise<void>((resolve) => kubelet.listen(0, '127.0.0.1', resolve));
    const { port } = kubelet.address() as AddressInfo;
    const kubeconfig = writeKubeconfig(authority, 'https://127.0.0.1:1');
    const needs = { clock: createClock(), kubeconfig, nodeName: 'node-1', kubeletDirectory: directory, port };
    return readConfigz(needs);
  }

  it('is read over its own port, with our own credentials', async () => {
    const said = await ask(authority, { status: 200, body: { kubeletconfig: CONFIG } });
    expect(said.known && JSON.parse(said.value)).toEqual(CONFIG);
  });
  it('is also read from one with a self-signed certificate', async () => {
    const said = await ask(
      stranger,
      { status: 200, body: { kubeletconfig: CONFIG } },
      stranger.read('ca.crt').toString(),
    );
    expect(said.known).toBe(true);
  });
  it('is not requested from a stranger on its port', async () => {
    expect(await ask(stranger, { status: 200, body: { kubeletconfig: CONFIG } })).toMatchObject({ known: false });
  });
  it.each([
    ['without the right', { status: 403, body: {} }],
    ['of something else', { status: 200, body: { other: 1 } }],
  ])('is unknown %s', async (_what, answer) => {
    expect((await ask(authority, answer)).known).toBe(false);
  });
});
