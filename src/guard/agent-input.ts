import type { AgentAction } from '../core/guard/agent-run.ts';
import { known, type Reading, unknown } from '../core/reading.ts';

const CONTROL = /\p{Cc}/u;
/** What the agents' library trims off a value (Python's strip), or one pair of quotes at its ends. */
const TRIMMED = /^[\s"]|[\s"]$/;

/**
 * The standard input of an agent (guard.md 8.1): `name=value` lines, the action last. Names that the agent does not know are
 * refused here, because it would print such a line, with its value, to stderr and syslog. The detail names no value.
 */
export function agentInput(
  action: AgentAction,
  values: { readonly [name: string]: string },
  knownNames: ReadonlySet<string>,
): Reading<string> {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(values)) {
    const refuse = (detail: string): Reading<string> => unknown('malformed', name, detail);
    if (name === 'action') return refuse('the action is not a parameter');
    if (!knownNames.has(name)) return refuse('the agent has no such parameter');
    if (CONTROL.test(name) || CONTROL.test(value)) return refuse('it contains a control character, such as a line end');
    lines.push(`${name}=${TRIMMED.test(value) ? `"${value}"` : value}`);
  }
  return known([...lines, `action=${action}`, ''].join('\n'));
}
