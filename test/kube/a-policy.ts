import fs from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Environment } from '@marcbachmann/cel-js';
import { parseAllDocuments } from 'yaml';
import type { Json } from './pod-store.ts';

type Named = { readonly name: string; readonly expression: string };
type Policy = {
  readonly spec: {
    readonly matchConditions: readonly Named[];
    readonly variables: readonly Named[];
    readonly validations: readonly { readonly expression: string; readonly message: string }[];
  };
};
type Maybe = { readonly hasValue: () => boolean; readonly value: () => unknown };
const insideOf = (maybe: Maybe): unknown => (maybe.hasValue() ? [maybe.value()] : []);
/** As the API server's: a field that is not there is none, and two that are not there are equal. */
const cel = new Environment({
  unlistedVariablesAreDyn: true,
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
}).registerOperator('optional == optional', (a: Maybe, b: Maybe) => isDeepStrictEqual(insideOf(a), insideOf(b)));

export type Asked = {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly resource: string;
  readonly object?: unknown;
  readonly oldObject?: unknown;
  readonly options?: unknown;
  readonly username?: string;
  readonly groups?: readonly string[];
  readonly extra?: Json;
};

/**
 * The first ValidatingAdmissionPolicy of a file in config/kubernetes: the messages of what refuses a request; null: it is not for
 * this caller.
 */
export function aPolicy(file: string, caller: string): (asked: Asked) => readonly string[] | null {
  const text = fs.readFileSync(path.resolve(import.meta.dirname, '../../config/kubernetes', file), 'utf8');
  const [policy] = parseAllDocuments(text).map((document): Policy => document.toJS());
  if (policy === undefined) throw new Error(`${file} is empty`);
  const { matchConditions, variables, validations } = policy.spec;
  return (asked) => {
    const [resource, subResource = ''] = asked.resource.split('/');
    const userInfo = {
      username: asked.username ?? caller,
      groups: asked.groups ?? ['system:authenticated'],
      ...(asked.extra === undefined ? {} : { extra: asked.extra }),
    };
    const { operation, object = null, oldObject = null, options = {} } = asked;
    const request = { operation, resource: { resource }, subResource, userInfo, options };
    const known: Json = {};
    const scope = { request, object, oldObject, variables: known };
    if (!matchConditions.every(({ expression }) => cel.evaluate(expression, scope))) return null;
    for (const { name, expression } of variables) {
      // The server evaluates a variable where it is used: what fails fails there.
      Object.defineProperty(known, name, { enumerable: true, get: () => cel.evaluate(expression, scope) });
    }
    return validations.flatMap(({ expression, message }) => {
      try {
        return cel.evaluate(expression, scope) === true ? [] : [message];
      } catch (cause) {
        return [`${message}: ${String(cause)}`];
      }
    });
  };
}
