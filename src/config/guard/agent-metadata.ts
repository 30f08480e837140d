import sax from 'sax';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';

/** One parameter that a fence agent takes, as its own metadata says. */
export type AgentParameter = {
  readonly name: string;
  readonly isRequired: boolean;
  /** The agent has a newer name for it. */
  readonly isOld: boolean;
  /** The older name of the same parameter. */
  readonly oldName: string | null;
  readonly type: string;
  /** What a `select` may be; empty for other types. */
  readonly options: readonly string[];
};
export type AgentMetadata = {
  readonly parameters: readonly AgentParameter[];
  /** `on`, `off`, `status`, ... */
  readonly actions: readonly string[];
};

export const MAX_METADATA_BYTES = 1024 * 1024;

/** What an agent printed for `metadata`: XML in the format of the OCF resource agents, which fence-agents uses. */
export function readAgentMetadata(xml: string, agent: string): Reading<AgentMetadata> {
  const malformed = (detail: string) => unknown('malformed', `${agent} metadata`, detail);
  if (xml.length > MAX_METADATA_BYTES) return malformed(`more than ${MAX_METADATA_BYTES / 1024} KiB`);
  const read = createTagReader();
  const parser = sax.parser(true);
  parser.onopentag = ({ name, attributes }) => read.open(name, attributes);
  parser.onclosetag = read.close;
  parser.onerror = (error) => {
    throw error;
  };
  try {
    // It reads what comes before the first tag without a word.
    parser.write(xml.trimStart()).close();
  } catch (cause) {
    return malformed(`no XML: ${sayCause(cause).split('\n')[0]}`);
  }
  const { root, parameters, actions } = read;
  return root() === ROOT ? known({ parameters, actions }) : malformed(`no <${ROOT}>`);
}
const ROOT = 'resource-agent';

type Attributes = { readonly [name: string]: string };

function createTagReader() {
  /** Of the open tags, the outermost ones. */
  const path: string[] = [];
  let depth = 0;
  let root: string | null = null;
  const parameters: (AgentParameter & { type: string; options: string[] })[] = [];
  const actions: string[] = [];
  const open = (tag: string, attributes: Attributes): void => {
    root ??= tag;
    depth += 1;
    if (depth > DEEPEST) return;
    path.push(tag);
    const { name = '', value = '', type = '' } = attributes;
    const last = parameters.at(-1);
    switch (path.join('/')) {
      case `${ROOT}/parameters/parameter`:
        parameters.push({ ...parameterOf(attributes), options: [] });
        break;
      case `${ROOT}/parameters/parameter/content`:
        if (last !== undefined) last.type = type;
        break;
      case `${ROOT}/parameters/parameter/content/option`:
        last?.options.push(value);
        break;
      case `${ROOT}/actions/action`:
        actions.push(name);
        break;
    }
  };
  const close = (): void => {
    depth -= 1;
    path.length = Math.min(path.length, depth);
  };
  return { open, close, root: () => root, parameters, actions };
}
const DEEPEST = 5;

function parameterOf({ name = '', required, deprecated, obsoletes }: Attributes) {
  const isRequired = required === '1';
  return { name, isRequired, isOld: deprecated === '1', oldName: obsoletes ?? null, type: 'string' };
}
