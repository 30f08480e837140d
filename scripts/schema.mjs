import { writeFileSync } from 'node:fs';
import { guardJsonSchema } from '../src/config/guard/schema.ts';
import { jsonSchema } from '../src/config/schema.ts';
import { agentPage, guardPage } from './configuration-page.ts';

// The JSON Schemas that editors use, from those that the program itself checks with; and the references of all fields.
const put = (name, text) => writeFileSync(new URL(`../${name}`, import.meta.url), text);
for (const [name, schema] of [
  ['config/schema.json', jsonSchema()],
  ['config/guard-schema.json', guardJsonSchema()],
]) {
  put(name, `${JSON.stringify(schema, null, 2)}\n`);
}
put('docs/configuration.md', agentPage(jsonSchema()));
put('docs/guard-configuration.md', guardPage(guardJsonSchema()));
