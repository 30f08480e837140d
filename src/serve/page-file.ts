import { readBesideProgram } from '../host/own-program.ts';
import { type HttpAnswer, text } from './http.ts';

const PAGE_BYTES = 1024 * 1024;

/**
 * A page beside the program. It declares which of its scripts may run; its policy is also in the header, where it can keep
 * the page out of frames.
 */
export const pageFile = (name: string) => (): HttpAnswer => {
  const read = readBesideProgram(name, PAGE_BYTES);
  if (!read.known) return text(503, `the page cannot be read: ${read.where}: ${read.detail}`);
  const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(read.value) ?? [];
  return {
    status: 200,
    type: 'text/html; charset=utf-8',
    body: read.value,
    policy: `${policy}; frame-ancestors 'none'`,
  };
};

/** What a page asks for. */
export const json = (status: number, body: string): HttpAnswer => ({
  status,
  type: 'application/json; charset=utf-8',
  body,
});
export const failed = (error: string): HttpAnswer => json(503, JSON.stringify({ error }));
