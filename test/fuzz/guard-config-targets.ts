import { join } from 'node:path';
import { readAgentMetadata } from '../../src/config/guard/agent-metadata.ts';
import { guardConfigOf } from '../../src/config/guard/load.ts';
import { methodFor } from '../../src/config/guard/method.ts';
import { keysOf, planOf } from '../../src/core/guard/config.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { blocksOf, filesIn } from './corpus.ts';
import { must, placed, read, same, sentence } from './oracle.ts';
import { example, type Target } from './target.ts';

const RESERVED =
  /^(action|delay|missing[_-]as[_-]off|passw(or)?d|passw(or)?d_script|verbose.*|debug.*|plug_separator)$/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be.
const CONTROL = /[\u0000-\u001f\u007f]/;

/** What is accepted switches one device of one machine, and says nothing that the guard has to say itself. */
const configurations: Target = {
  name: 'guard-configuration',
  syntax: 'yaml',
  examples: ({ root }) => [
    ...filesIn(join(root, 'config'), 'guard.yaml'),
    ...blocksOf(join(root, 'docs/guard.md'), 'yaml').filter(({ body }) => body.includes('fencing:')),
  ],
  open: () => (input) => {
    const text = input.toString();
    const loaded = guardConfigOf(text, 'g.yaml');
    placed(loaded.problems, text);
    placed(loaded.warnings, text);
    for (const warning of loaded.warnings) sentence(sayProblem(warning), 'a warning');
    const { effective } = loaded;
    must((effective === null) === loaded.problems.length > 0, 'refused without a problem, or accepted with one');
    same(guardConfigOf(text, 'g.yaml').effective?.hash, effective?.hash, 'a configuration is read in two ways');
    if (effective === null) return false;
    const owners = new Map<string, string>();
    for (const node of [...Object.keys(effective.core.plans), 'somebody']) {
      const plan = planOf(effective.core, node);
      for (const key of plan === null ? [] : keysOf(plan)) {
        must((owners.get(key) ?? node) === node, 'two nodes with one device', () => key);
        owners.set(key, node);
        const method = methodFor(effective.methods, { name: node, uid: '' }, key);
        must(method !== null, 'a method that cannot be carried out', () => key);
        for (const [name, value] of Object.entries(method?.parameters ?? {})) {
          must(!RESERVED.test(name), 'a parameter that is the guard’s own', () => name);
          must(!CONTROL.test(name + value), 'a control character', () => JSON.stringify([name, value]));
          must(name !== 'plug' || !value.includes(','), 'two outlets in one method', () => value);
        }
      }
    }
    return true;
  },
};

const METADATA = `<?xml version="1.0" ?>
<resource-agent name="fence_x" shortdesc="x" >
<longdesc>a &lt;b&gt;</longdesc>
<parameters>
	<parameter name="method" unique="0" required="1" obsoletes="way">
		<getopt mixed="-m, --method=[method]" />
		<content type="select" default="onoff"  >
			<option value="onoff" />
			<option value="cycle" />
		</content>
		<shortdesc lang="en">Method to fence</shortdesc>
	</parameter>
</parameters>
<actions>
	<action name="on" automatic="0"/>
	<action name="off" />
</actions>
</resource-agent>
`;

const metadata: Target = {
  name: 'agent-metadata',
  syntax: 'text',
  examples: () => [example(METADATA)],
  open: () => (input) => {
    const found = readAgentMetadata(input.toString(), 'fence_x');
    read([found], 'the metadata of an agent');
    return found.known;
  },
};

export const GUARD_CONFIG_TARGETS: readonly Target[] = [configurations, metadata];
