import { AMOUNT_PATTERN, DURATION_PATTERN } from '../src/config/field-text.ts';
import { isObject } from '../src/core/shape.ts';

type Schema = { readonly [key: string]: unknown };
const schemaOf = (value: unknown): Schema => (isObject(value) ? value : {});
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const AGENT_HEAD = `# Configuration reference

All fields of a NodewardenConfiguration, from its JSON Schema ([config/schema.json](../config/schema.json)). \`npm run
schema\` writes both. [configure.md](configure.md) explains what the fields do and has examples.

- A **duration** is \`90s\`, \`1m30s\` or \`1.5h\`. An **amount** is a Kubernetes quantity (\`100Mi\`) or a share of the
  capacity (\`10%\`). A **signal** is one of the names [below](#signals).
- \`[]\` in a name stands for each entry of a list.
- *Required* means: within its section.
`;

const GUARD_HEAD = `# Configuration reference of the guard

All fields of a NodewardenGuardConfiguration, from its JSON Schema
([config/guard-schema.json](../config/guard-schema.json)). \`npm run schema\` writes both. [guard.md](guard.md) explains
what the fields do and has examples.

- A **duration** is \`90s\`, \`1m30s\` or \`1.5h\`.
- \`[]\` in a name stands for each entry of a list, \`*\` for each entry of a mapping.
- *Required* means: within its section.
`;

/** docs/configuration.md: one row for each field. */
export function agentPage(schema: Schema): string {
  const signals = listOf(schemaOf(schemaOf(schemaOf(schema['properties'])['evictionHard'])['propertyNames'])['enum']);
  return page(AGENT_HEAD, schema, ['## Signals', '', ...signals.map((signal) => `- \`${signal}\``), '']);
}

/** docs/guard-configuration.md. */
export function guardPage(schema: Schema): string {
  return page(GUARD_HEAD, schema, []);
}

function page(head: string, schema: Schema, more: readonly string[]): string {
  const rows = Object.entries(schemaOf(schema['properties'])).flatMap(([name, field]) =>
    rowsOf(name, schemaOf(field), listOf(schema['required']).includes(name)),
  );
  return [
    head,
    '| field | type | default | meaning |',
    '|---|---|---|---|',
    ...rows,
    '',
    ...more,
    '## What the schema does not check',
    '',
    `${schema['description']}`,
    '',
  ].join('\n');
}

function rowsOf(name: string, field: Schema, isRequired: boolean): readonly string[] {
  const absent = meaningOf(field).includes('default') ? '' : 'none';
  const fixed = isRequired ? '*required*' : absent;
  const initial = 'default' in field && !hasFields(field) ? code(field['default']) : fixed;
  const row =
    hasFields(field) && !('description' in field) ? [] : [[`\`${name}\``, typeOf(field), initial, meaningOf(field)]];
  const under = entriesOf(name, field);
  return [
    ...row.map((cells) => `| ${cells.join(' | ')} |`),
    ...Object.entries(schemaOf(under.of['properties'])).flatMap(([inner, value]) =>
      rowsOf(`${under.name}.${inner}`, schemaOf(value), listOf(under.of['required']).includes(inner)),
    ),
  ];
}

/** What has fields of its own, however deep in lists and mappings. */
function entriesOf(name: string, field: Schema): { readonly name: string; readonly of: Schema } {
  if ('items' in field) return entriesOf(`${name}[]`, schemaOf(field['items']));
  const values = schemaOf(field['additionalProperties']);
  return 'propertyNames' in field && hasFields(values) ? { name: `${name}.*`, of: values } : { name, of: field };
}

const hasFields = (field: Schema): boolean => 'properties' in field;

function code(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value).replaceAll(',', ', ').replaceAll('"', '');
  return `\`${text}\``;
}

function meaningOf(field: Schema): string {
  return typeof field['description'] === 'string' ? field['description'].replaceAll('|', '\\|') : '';
}

function listed(items: Schema): string {
  if (hasFields(items)) return 'sections';
  if ('items' in items) return `lists of ${listed(schemaOf(items['items']))}`;
  return 'enum' in items ? typeOf(items) : `${typeOf(items)}s`;
}

function typeOf(field: Schema): string {
  if ('const' in field) return code(field['const']);
  if ('enum' in field) return listOf(field['enum']).map(code).join(', ');
  if ('items' in field) return `list of ${listed(schemaOf(field['items']))}`;
  if ('propertyNames' in field) {
    return `${schemaOf(field['propertyNames'])['title']}: ${typeOf(schemaOf(field['additionalProperties']))}`;
  }
  if (hasFields(field)) return 'section';
  const { pattern, minimum, maximum, type } = field;
  if (pattern === DURATION_PATTERN) return 'duration';
  if (pattern === AMOUNT_PATTERN) return 'amount';
  if (pattern === '^/') return 'absolute path';
  if (typeof pattern === 'string' && pattern.endsWith('%$')) return 'percentage';
  const isBounded = typeof maximum === 'number' && maximum < 2 ** 31 - 1;
  return type === 'integer' && isBounded ? `integer, ${minimum} to ${maximum}` : String(type);
}
