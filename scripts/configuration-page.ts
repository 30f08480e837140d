import { AMOUNT_PATTERN, DURATION_PATTERN } from '../src/config/field-text.ts';
import { isObject } from '../src/core/shape.ts';

type Schema = { readonly [key: string]: unknown };
const schemaOf = (value: unknown): Schema => (isObject(value) ? value : {});
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const HEAD = `# Configuration reference

All fields of a NodewardenConfiguration, from its JSON Schema ([config/schema.json](../config/schema.json)). \`npm run
schema\` writes both. [configure.md](configure.md) explains what the fields do and has examples.

- A **duration** is \`90s\`, \`1m30s\` or \`1.5h\`. An **amount** is a Kubernetes quantity (\`100Mi\`) or a share of the
  capacity (\`10%\`). A **signal** is one of the names [below](#signals).
- \`[]\` in a name stands for each entry of a list.
- *Required* means: within its section.
`;

/** docs/configuration.md: one row for each field. */
export function configurationPage(schema: Schema): string {
  const rows = Object.entries(schemaOf(schema['properties'])).flatMap(([name, field]) =>
    rowsOf(name, schemaOf(field), listOf(schema['required']).includes(name)),
  );
  const signals = listOf(schemaOf(schemaOf(schemaOf(schema['properties'])['evictionHard'])['propertyNames'])['enum']);
  return [
    HEAD,
    '| field | type | default | meaning |',
    '|---|---|---|---|',
    ...rows,
    '',
    '## Signals',
    '',
    ...signals.map((signal) => `- \`${signal}\``),
    '',
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
  const items = schemaOf(field['items']);
  const under = hasFields(items) ? { name: `${name}[]`, of: items } : { name, of: field };
  return [
    ...row.map((cells) => `| ${cells.join(' | ')} |`),
    ...Object.entries(schemaOf(under.of['properties'])).flatMap(([inner, value]) =>
      rowsOf(`${under.name}.${inner}`, schemaOf(value), listOf(under.of['required']).includes(inner)),
    ),
  ];
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
