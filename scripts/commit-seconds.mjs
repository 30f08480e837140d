import { execFileSync } from 'node:child_process';

/** The time stamp of everything that is built: SOURCE_DATE_EPOCH, else of the last commit, else of no checkout. */
export function commitSeconds(root) {
  const given = process.env['SOURCE_DATE_EPOCH'];
  if (given !== undefined) return given;
  const git = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
  try {
    return execFileSync('git', ['log', '-1', '--format=%ct'], git).trim();
  } catch {
    return '0';
  }
}
