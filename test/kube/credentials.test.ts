import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readCredentials } from '../../src/kube/api/credentials.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';

let authority: Authority;
beforeAll(() => {
  authority = createAuthority();
});
afterAll(() => authority.remove());

const SERVER = 'https://10.0.0.1:6443';
async function why(options: Parameters<typeof writeKubeconfig>[2] = {}, server = SERVER): Promise<string> {
  const read = await readCredentials(writeKubeconfig(authority, server, options));
  return read.known ? '' : read.detail;
}

describe('a kubeconfig', () => {
  it('names the server, the authority and our identity; paths are relative to it', async () => {
    const read = await readCredentials(writeKubeconfig(authority, `${SERVER}/k8s/clusters/c-1/`));
    if (!read.known) throw new Error(read.detail);
    const { server, prefix, headers, certificate, files } = read.value;
    expect({ server, prefix, headers }).toEqual({
      server: { host: '10.0.0.1', port: 6443 },
      prefix: '/k8s/clusters/c-1',
      headers: {},
    });
    expect(certificate && (certificate.toWallMs - certificate.fromWallMs) / 86_400_000).toBeCloseTo(30);
    expect(files).toEqual(['kubeconfig', 'ca.crt', 'client.crt', 'client.key'].map(authority.at));
  });

  it('may contain everything itself, as written by kubectl config --flatten', async () => {
    const base64 = (name: string) => readFileSync(authority.at(name)).toString('base64');
    const user = {
      'client-certificate': undefined,
      'client-key': undefined,
      'client-certificate-data': base64('client.crt'),
      'client-key-data': base64('client.key'),
    };
    const cluster = { 'certificate-authority': undefined, 'certificate-authority-data': base64('ca.crt') };
    const read = await readCredentials(writeKubeconfig(authority, 'https://[::1]', { user, cluster }));
    expect(read).toMatchObject({
      known: true,
      value: { server: { host: '::1', port: 443 }, files: [authority.at('kubeconfig')] },
    });
  });

  it('may contain a token, or the path of one, which takes precedence', async () => {
    writeFileSync(authority.at('token'), ' from-file\n');
    const token = async (user: object) => {
      const read = await readCredentials(writeKubeconfig(authority, SERVER, { user }));
      return read.known ? read.value.headers : read.detail;
    };
    expect(await token({ token: 'inline' })).toEqual({ authorization: 'Bearer inline' });
    expect(await token({ token: 'inline', tokenFile: authority.at('token') })).toEqual({
      authorization: 'Bearer from-file',
    });
    expect(await token({ tokenFile: 'token' })).toEqual({ authorization: 'Bearer from-file' });
    writeFileSync(authority.at('token'), 'two\r\nheaders: x');
    expect(await token({ tokenFile: 'token' })).toBe('not a token');
    expect(await token({ tokenFile: 'missing' })).toMatch(/ENOENT/);
  });

  it.each([
    [
      'insecure-skip-tls-verify',
      { cluster: { 'insecure-skip-tls-verify': true } },
      /insecure-skip-tls-verify is refused/,
    ],
    ['a proxy', { cluster: { 'proxy-url': 'socks5://x' } }, /proxy-url is refused/],
    ['an exec plugin', { user: { exec: { command: 'aws' } } }, /exec is refused: a daemon of root runs no plugin/],
    [
      'an auth provider',
      { user: { 'auth-provider': { name: 'gcp', config: { 'cmd-path': '/bin/x' } } } },
      /auth-provider is refused/,
    ],
    ['another identity', { user: { as: 'system:admin' } }, /^as is refused/],
    ['a password', { user: { username: 'root', password: 'x' } }, /username is refused/],
  ])('with %s is refused, with a sentence', async (_, options, sentence) => {
    expect(await why(options)).toMatch(sentence);
  });

  it.each([
    ['http://10.0.0.1:8080', /must begin with https:/],
    ['10.0.0.1:6443', /not a URL|must begin with https/],
  ])('of the server %s is refused', async (server, sentence) => {
    expect(await why({}, server)).toMatch(sentence);
  });

  it('that others may write, or that is a link, is not trusted', async () => {
    const file = writeKubeconfig(authority, SERVER);
    chmodSync(file, 0o666);
    expect(await readCredentials(file)).toMatchObject({
      known: false,
      why: 'malformed',
      detail: expect.stringContaining('chmod go-w'),
    });
    chmodSync(file, 0o600);
    symlinkSync(file, authority.at('link'));
    expect(await readCredentials(authority.at('link'))).toMatchObject({
      known: false,
      detail: expect.stringContaining('symbolic link'),
    });
  });

  it.each([
    ['no YAML', '{', /not valid YAML/],
    ['a key twice', 'users: []\nusers: []\n', /twice/],
    ['a list', '[]', /not a kubeconfig/],
    ['nothing', '', /not a kubeconfig/],
    ['no context', '{"clusters":[],"users":[]}', /current-context/],
    ['contexts that are text', '{"clusters":"x","users":3,"contexts":{},"current-context":["a"]}', /./],
    ['a bomb', `a: &a [${'x,'.repeat(99)}]\nb: &b [${'*a,'.repeat(99)}]\nc: [${'*b,'.repeat(99)}]\n`, /./],
  ])('with %s leads to a message that says what is wrong', async (_, text, sentence) => {
    const directory = path.join(authority.directory, 'bad');
    mkdirSync(directory, { recursive: true });
    const file = path.join(directory, 'kubeconfig');
    writeFileSync(file, text, { mode: 0o600 });
    const read = await readCredentials(file);
    expect(read.known ? 'read' : read.detail).toMatch(sentence);
    expect(read.known).toBe(false);
  });

  it('that names missing files, or is inconsistent, says so', async () => {
    expect(await why({ cluster: { 'certificate-authority': 'missing.crt' } })).toMatch(/ENOENT.*missing.crt/);
    authority.issue('other', '/CN=other');
    expect(await why({ user: { 'client-key': 'other.key' } })).toMatch(/key values mismatch/);
    expect(await readCredentials('/nonexistent/kubeconfig')).toMatchObject({ known: false, why: 'absent' });
  });
});
