import { writeFileSync } from 'node:fs';
import { jsonSchema } from '../src/config/schema.ts';
import { configurationPage } from './configuration-page.ts';

// The JSON Schema that editors use, from the schema that the program itself checks with; and the reference of all fields.
const schema = jsonSchema();
writeFileSync(new URL('../config/schema.json', import.meta.url), `${JSON.stringify(schema, null, 2)}\n`);
writeFileSync(new URL('../docs/configuration.md', import.meta.url), configurationPage(schema));
