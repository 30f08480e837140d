import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, it } from 'vitest';

const ANSIBLE = path.resolve(import.meta.dirname, '../../contrib/ansible');
const isThere = spawnSync('ansible-playbook', ['--version']).status === 0;

it('the Ansible play and its role are accepted by ansible-playbook [needs ansible-playbook]', ({ skip }) => {
  if (!isThere) skip('ansible-playbook is not installed');
  const check = ['--inventory', 'localhost,', '--syntax-check', 'site.yml'];
  const { status, stdout, stderr } = spawnSync('ansible-playbook', check, { cwd: ANSIBLE, encoding: 'utf8' });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toContain('playbook: site.yml');
});
