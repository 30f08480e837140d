import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { guardJsonSchema } from '../../src/config/guard/schema.ts';
import { jsonSchema } from '../../src/config/schema.ts';
import { HEAD, problems } from './a-config.ts';

const validate = new Ajv2020({ strict: false, allErrors: true }).compile(jsonSchema());

function isValid(text: string): boolean {
  return validate(parse(HEAD + text));
}

describe('the JSON Schema', () => {
  it('is the file config/schema.json', () => {
    const file = readFileSync(new URL('../../config/schema.json', import.meta.url), 'utf8');
    expect(JSON.parse(file)).toEqual(jsonSchema());
  });

  it('of the guard is the file config/guard-schema.json, and accepts its commented example', () => {
    const read = (name: string) => readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8');
    expect(JSON.parse(read('guard-schema.json'))).toEqual(guardJsonSchema());
    const guard = new Ajv2020({ strict: false, allErrors: true }).compile(guardJsonSchema());
    expect(guard(parse(read('guard.yaml'))), JSON.stringify(guard.errors)).toBe(true);
    expect(guard(parse(read('guard.yaml').replace('dryRun: true', '')))).toBe(false);
  });

  it('accepts the commented example', () => {
    const file = readFileSync(new URL('../../config/config.yaml', import.meta.url), 'utf8');
    expect(validate(parse(file)), JSON.stringify(validate.errors)).toBe(true);
  });

  it.each([
    'evictionHard: {memory.available: 1.5Gi, nodefs.available: 10%, pid.available: "1000"}',
    'evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: .5h}',
    'shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 60}]',
    'http: {listen: "[::1]:20259", hosts: [node1.example]}',
    'kubernetes: {kubeconfig: /etc/k, pdb: required}',
    'reclaimCommands: [{signal: nodefs.available, command: [/usr/bin/true], timeout: 5s}]',
    'systemReserved: {memory: 1Gi, cpu: 500m}',
  ])('accepts what the program accepts: %s', (text) => {
    expect(isValid(text), JSON.stringify(validate.errors)).toBe(true);
    expect(problems(text).filter((problem) => !problem.includes('grace period must be'))).toEqual([]);
  });

  it.each([
    'evictionHrad: {}',
    'evictionHard: {memory.avialable: 1Gi}',
    'evictionHard: {memory.available: 100}',
    'evictionHard: {memory.available: 100 Mi}',
    'evictionSoftGracePeriod: {memory.available: "90"}',
    'mode: standalon',
    'dryRun: "yes"',
    'evictionMaxPodGracePeriod: 1.5',
    'imageGCHighThresholdPercent: 101',
    'reclaimCommands: [{signal: memory.available, command: [/bin/true]}]',
    'reclaimCommands: [{signal: nodefs.available}]',
    'podManifests: pods.d',
    'guard: {sameOwnerKills: -1}',
    'kubernetes: {nodeName: x}',
  ])('refuses what the program refuses: %s', (text) => {
    expect(isValid(text)).toBe(false);
    expect(problems(text)).not.toEqual([]);
  });
});
