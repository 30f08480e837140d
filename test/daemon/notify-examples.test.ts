import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPreKill } from '../../src/act/pre-kill.ts';
import { createNotifier } from '../../src/daemon/notifier.ts';
import { createClock } from '../../src/host/clock.ts';
import { createCommandRunner } from '../../src/host/systemd/transient.ts';
import { entryOf } from '../../src/record/entry.ts';
import { evict, soft } from '../act/an-actor.ts';

/** The programs of docs/notify.md as they stand there, run as the agent runs them; only what they hand over to is a stub. */

const page = readFileSync(path.resolve(import.meta.dirname, '../../docs/notify.md'), 'utf8');
const programs = [...page.matchAll(/^```\n(#!\/bin\/sh\n.*?)^```$/gms)].map(([, text = '']) => text);
const program = (part: string): string => {
  const [found, ...others] = programs.filter((text) => text.includes(part));
  if (found === undefined || others.length > 0)
    throw new Error(`docs/notify.md has no program, or several, with ${part}`);
  return found;
};
const has = (name: string): boolean => ['/usr/bin', '/usr/sbin', '/bin'].some((at) => existsSync(`${at}/${name}`));
const isRoot = process.getuid?.() === 0;

/** What a tenant may have put into a name: for a shell, a terminal, a mail, a chat, JSON. */
const ODD = '/srv/$(touch ran) `touch ran`; "\'\\ \r\n.\nBcc: all\x1b[2J\u202e<!channel> & é \ud800';
/** The same as the event has it: nothing in it ends a line. */
const HARMLESS = /^found \/srv\/\$\(touch ran\) `touch ran`; "'\\ \\u000d\\u000a\.\\u000aBcc: all\\u001b\[2J\\u202e/;

const clock = createClock();
const systemd = { isUp: () => false, isConnecting: () => false, whenUp: () => () => {} } as unknown as Parameters<
  typeof createCommandRunner
>[0]['systemd'];
const run = createCommandRunner({ systemd, clock });
let directory = '';
beforeEach(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-examples-'));
  // Another user runs the one for a desktop.
  chmodSync(directory, 0o755);
});
afterEach(() => rmSync(directory, { recursive: true }));

function install(text: string): string {
  const file = path.join(directory, 'program');
  writeFileSync(file, text, { mode: 0o755 });
  return file;
}
/** A program that keeps its arguments, one a line, and its input. */
function aStub(name: string): string {
  const file = path.join(directory, name);
  mkdirSync(`${file}.got`, { mode: 0o777 });
  chmodSync(`${file}.got`, 0o777);
  const keep = `#!/bin/sh\nfor arg in "$@"; do printf '%s\\n' "$arg"; done > ${file}.got/args\ncat > ${file}.got/part && mv ${file}.got/part ${file}.got/input\n`;
  writeFileSync(file, keep, { mode: 0o755 });
  return file;
}
const got = async (stub: string, what: 'args' | 'input'): Promise<string> => {
  await vi.waitFor(() => expect(existsSync(`${stub}.got/input`)).toBe(true), 20_000);
  return readFileSync(`${stub}.got/${what}`, 'utf8');
};

/** A finding with an odd name, told by the notifier. Returns what it says of the command. */
function tell(command: string): readonly string[] {
  const failures: string[] = [];
  const notifier = createNotifier({ clock, run, node: 'node-1' });
  notifier.follow({
    configured: () => ({ command: [command], on: ['finding'], timeoutMs: 20_000 }),
    findings: { raise: ({ text }) => void failures.push(text), clear: () => undefined },
    decisionOf: () => null,
  });
  const finding = { id: 'what-fills/nodefs.available', text: `found ${ODD}` };
  notifier.seen(
    entryOf({ atWallMs: 0, bootId: 'boot', dry: false }, { kind: 'note', note: { kind: 'finding', atMs: 0, finding } }),
  );
  return failures;
}
const nothingRan = (): void => expect([readdirSync(directory), readdirSync('/')].flat()).not.toContain('ran');

describe.skipIf(!has('jq'))('the notify programs in docs/notify.md, with odd bytes in a name [needs jq]', () => {
  it('send a mail with the headers that they set, and no others', async () => {
    const sendmail = aStub('sendmail');
    tell(install(program('sendmail').replace('/usr/sbin/sendmail', sendmail)));
    const [head = '', body = '', ...more] = (await got(sendmail, 'input')).split('\n\n');
    expect(head.split('\n')).toEqual([
      'To: root',
      'Subject: nodewarden on node-1: finding',
      'Content-Type: text/plain; charset=utf-8',
    ]);
    expect([body.split('\n').length, body, more]).toEqual([2, expect.stringMatching(HARMLESS), []]);
    expect(await got(sendmail, 'args')).toBe('-i\n-t\n');
    nothingRan();
  });

  it.skipIf(!has('curl'))('send one message to a chat, without a mention in it [needs curl]', async () => {
    const bodies: string[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part) => {
        body += part;
      });
      request.on('end', () => {
        bodies.push(`${request.method} ${request.headers['content-type']} ${body}`);
        response.end('ok');
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const failures = tell(
        install(program('curl').replace('https://chat.example.org/hooks/ID', `http://127.0.0.1:${port}/hook`)),
      );
      await vi.waitFor(() => expect([...bodies, ...failures]).toHaveLength(1), 20_000);
      const [, json = ''] = /^POST application\/json (.*)$/s.exec(bodies[0] ?? '') ?? [];
      const { text } = JSON.parse(json);
      expect(text).toMatch(/^node-1: found \/srv\/\$\(touch ran\)/);
      expect(text).toContain('&lt;!channel&gt; &amp; é');
      nothingRan();
    } finally {
      server.close();
    }
  });

  it.skipIf(!isRoot || !has('runuser'))('show it on the desktop of a user, as that user [needs root]', async () => {
    const stub = aStub('notify-send');
    const text = program('notify-send').replaceAll('alice', 'nobody').replaceAll('notify-send', stub);
    tell(install(text));
    const args = (await got(stub, 'args')).trimEnd().split('\n');
    expect(args).toEqual(['--app-name=nodewarden', '--', 'nodewarden', expect.stringMatching(HARMLESS)]);
    nothingRan();
  });
});

describe('the preKill program of docs/notify.md', () => {
  it('saves the unchanged decision and the processes of that moment, unreadable to others', async () => {
    const kept = path.join(directory, 'evidence');
    const failures: string[] = [];
    const preKill = createPreKill({
      configured: () => ({
        command: [install(program('nodewarden-evidence').replace('/var/log/nodewarden-evidence', kept))],
        timeoutMs: 20_000,
      }),
      run,
      findings: { raise: ({ text }) => void failures.push(text), clear: () => undefined, all: () => [] },
    });
    const decision = { ...evict(soft, 30), message: ODD } as Parameters<typeof preKill.collect>[0];
    await preKill.collect(decision);
    await preKill.collect(decision);
    expect(failures).toEqual([]);
    const names = readdirSync(kept).toSorted();
    expect(names.map((name) => path.extname(name))).toEqual(['.json', '.ps', '.json', '.ps']);
    const [json = '', ps = ''] = names.map((name) => readFileSync(path.join(kept, name), 'utf8'));
    expect(JSON.parse(json)).toEqual({ ...JSON.parse(JSON.stringify(decision)), message: ODD.toWellFormed() });
    expect(ps.split('\n')[0]).toMatch(/^ *PID +PPID USER/);
    nothingRan();
  });
});
