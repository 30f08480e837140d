import { writeFileSync } from 'node:fs';
import { jsonSchema } from '../src/config/schema.ts';

// The JSON Schema that editors use, from the schema that the program itself checks with.
writeFileSync(new URL('../config/schema.json', import.meta.url), `${JSON.stringify(jsonSchema(), null, 2)}\n`);
