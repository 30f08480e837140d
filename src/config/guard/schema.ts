import * as z from 'zod/mini';
import { isDnsName, NODE_PLACEHOLDER } from '../../core/guard/config.ts';
import { text } from '../../document/check.ts';
import { absolutePath, duration, ownDirectory, percentage } from '../field-text.ts';
import { choice, flag, httpSection, logSection, NODEWARDEN_API_VERSION, socketPath, whole } from '../schema.ts';
import { GUARD_KIND } from '../source.ts';
import { isAgentName } from './agents.ts';

/**
 * The single source of names, types, defaults and the JSON Schema of guard.md section 4. Rules that span two fields are in
 * rules.ts, those about devices in templates.ts and plans.ts.
 */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const time = (description: string, fallback: string, minMs: number, maxMs: number) =>
  z._default(duration(description, fallback, minMs, maxMs), fallback);
const count = (description: string, fallback: number, min: number, max: number) =>
  z._default(whole(description, fallback, min, max), fallback);
const share = (description: string, fallback: string) => z._default(percentage(description, fallback), fallback);

/** Name or prefix/name, as of a Kubernetes label. */
const LABEL_KEY = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const labelKey = text((value) => (LABEL_KEY.test(value) ? null : 'is no label key'), {
  title: 'label',
  description: 'key of a node label',
  examples: ['topology.kubernetes.io/zone'],
});
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

const kubernetes = z.prefault(
  z.strictObject({
    kubeconfig: z._default(
      text(
        (value) => (value === 'in-cluster' || value.startsWith('/') ? null : 'must be in-cluster or an absolute path'),
        {
          description: 'credentials for the API server: a file, or in-cluster for those of the pod',
          examples: ['/etc/nodewarden/guard.kubeconfig'],
          pattern: '^(in-cluster$|/)',
        },
      ),
      'in-cluster',
    ),
    namespace: z._default(
      text((value) => (NAMESPACE.test(value) ? null : 'is no name of a namespace'), {
        description: 'namespace of its lease and records',
        examples: ['nodewarden-guard'],
      }),
      'nodewarden-guard',
    ),
    outOfService: z._default(
      choice(
        ['detect', 'assume'],
        'assume: the server is older than 1.26, and its feature NodeOutOfServiceVolumeDetach is on',
      ),
      'detect',
    ),
  }),
  {},
);

const nodes = z._default(
  z
    .strictObject({
      matchLabels: z._default(
        z.record(labelKey, z.string().check(z.meta({ description: 'the value of the label' }))),
        {},
      ),
      matchExpressions: z._default(
        z.array(
          z.strictObject({
            key: labelKey,
            operator: choice(['In', 'NotIn', 'Exists', 'DoesNotExist'], 'how the label is compared'),
            values: z._default(z.array(z.string()).check(z.meta({ description: 'for In and NotIn' })), []),
          }),
        ),
        [],
      ),
    })
    .check(z.meta({ description: 'label selector of the nodes it may fence; default: all but control-plane nodes' })),
  { matchLabels: {}, matchExpressions: [] },
);

const limits = {
  storm: z.prefault(
    z.strictObject({
      maxUnhealthy: share('more suspect nodes than this share are a storm', '30%'),
      domainShare: share('so many suspect nodes of one failure domain are a storm', '55%'),
      burst: z.prefault(
        z.strictObject({
          nodes: count('so many nodes that fall silent together have one cause', 3, 2, 1_000),
          // Nodes that are cut off at one instant seem up to a renewal, a list and a look apart.
          within: time('what counts as together', '30s', 20 * SECOND, 10 * MINUTE),
        }),
        {},
      ),
      coolDown: time('how long a storm holds after it has ended', '10m', MINUTE, DAY),
    }),
    {},
  ),
  rate: z.prefault(
    z.strictObject({
      minInterval: time('time between two power-offs', '30s', SECOND, DAY),
      maxPerHour: count('power-offs in an hour', 6, 1, 1_000),
      maxInFlight: count('fencings decided but not yet drained', 2, 1, 100),
    }),
    {},
  ),
  recovery: z.prefault(
    z.strictObject({
      powerOn: z._default(flag('power a fenced machine on again when its pods are gone'), true),
      bootTime: time('how long a machine may take from power on to Ready', '10m', 30 * SECOND, 4 * HOUR),
      stableFor: time('how long it must stay Ready', '1m', 0, HOUR),
      attempts: count('power-on commands for one fencing', 3, 1, 10),
      perNodePerDay: count('the fencing after so many in 24 h leaves the machine off', 2, 1, 100),
    }),
    {},
  ),
  drainWait: time(
    'how long pods and volumes may take to go before the machine is powered on all the same',
    '10m',
    MINUTE,
    DAY,
  ),
  patrol: z.prefault(
    z.strictObject({
      every: time('how often the devices of healthy nodes are asked for their status; 0 = never', '10m', 0, DAY),
      maxPerMinute: count('devices asked in a minute', 12, 1, 600),
    }),
    {},
  ),
};

/** Safe as part of a path, of a line of text, and of an argument. */
const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** fence-agents have names with dots and dashes too: tls1.0, project-name. */
const PARAMETER = /^[A-Za-z][A-Za-z0-9_.-]{0,62}$/;
const SECRET_FILE = /^[A-Za-z0-9_]([A-Za-z0-9_.-]|\{node\}){0,200}$|^\{node\}([A-Za-z0-9_.-]|\{node\}){0,200}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
const PLACEHOLDER = /\{[A-Za-z_]+\}/g;
const MAX_VALUE = 1_000;

const parameterName = text((name) => (PARAMETER.test(name) ? null : 'is no name of a parameter'), {
  title: 'parameter',
});
function wrongPlaceholder(value: string): string | null {
  const wrong = value.match(PLACEHOLDER)?.find((found) => found !== NODE_PLACEHOLDER);
  return wrong === undefined ? null : `unknown placeholder ${wrong}; the only one is {node}`;
}
const parameters = z
  .record(
    parameterName,
    text(
      (value) => {
        if (CONTROL.test(value)) return 'must not contain a control character, such as the end of a line';
        return value.length > MAX_VALUE ? `must have at most ${MAX_VALUE} characters` : wrongPlaceholder(value);
      },
      { description: 'given to the agent as text; {node} is the name of the node', examples: ['1'] },
    ),
  )
  .check(z.meta({ description: "the agent's own parameters, by its names" }));
const secrets = z
  .record(
    parameterName,
    text(
      (value) =>
        SECRET_FILE.test(value) ? null : (wrongPlaceholder(value) ?? 'must be the name of a file, without /'),
      { description: 'name of a file in secretDirectory; {node} is the name of the node', examples: ['bmc-password'] },
    ),
  )
  .check(z.meta({ description: 'parameters whose value is read from a file at each run' }));

const template = z.strictObject({
  agent: text((value) => (isAgentName(value) ? null : 'must be the name of a fence agent'), {
    description: 'program of the package fence-agents',
    examples: ['fence_redfish'],
    pattern: '^fence_[a-z0-9_]+$',
  }),
  parameters: z._default(parameters, {}),
  secrets: z._default(secrets, {}),
  proof: z.optional(
    choice(['power'], 'for an agent that nodewarden does not know: its off cuts the power, its status asks the device'),
  ),
});
const method = z.strictObject({
  template: z.string().check(z.meta({ description: 'name of a template', examples: ['bmc'] })),
  parameters: z._default(parameters, {}),
});
const plan = z.strictObject({
  isolation: z._default(
    z
      .array(method)
      .check(z.meta({ description: 'fabric agents, best effort: they cut storage before the power goes' })),
    [],
  ),
  power: z
    .array(
      z
        .array(method)
        .check(
          z.minLength(1),
          z.meta({ description: 'methods that must all prove off', examples: [[{ template: 'bmc' }]] }),
        ),
    )
    .check(z.minLength(1), z.meta({ description: 'levels, tried in order', examples: [[[{ template: 'bmc' }]]] })),
});
export const plansByNode = z
  .record(
    text((name) => (isDnsName(name) ? null : 'is no name of a node'), { title: 'node' }),
    plan,
  )
  .check(z.meta({ description: 'how each node is fenced' }));

const fencing = z
  .strictObject({
    deadline: time('the longest run of one agent', '40s', 10 * SECOND, 5 * MINUTE),
    secretDirectory: z._default(
      absolutePath('directory of the files that secrets name', '/etc/nodewarden/guard-secrets'),
      '/run/credentials/nodewarden-guard.service',
    ),
    templates: z
      .record(
        text((name) => (NAME.test(name) ? null : 'must be small letters, digits and -'), { title: 'template' }),
        template,
      )
      .check(z.meta({ description: 'devices of one kind' })),
    nodes: z._default(plansByNode, {}),
    nodesFile: z.optional(absolutePath('another file with nodes, for fleets', '/etc/nodewarden/guard-nodes.yaml')),
    default: z.optional(plan.check(z.meta({ description: 'for nodes not listed; absent: they are never fenced' }))),
  })
  .check(z.meta({ description: 'the devices' }));

const fields = {
  dryRun: z.boolean().check(z.meta({ description: 'true: decide and tell, touch nothing; false: armed' })),
  kubernetes,
  nodes,
  controlPlane: z._default(choice(['never', 'oneAtATime'], 'whether control-plane nodes may be fenced'), 'never'),
  domainLabels: z._default(
    z.array(labelKey).check(z.meta({ description: 'labels that divide the nodes into failure domains' })),
    ['topology.kubernetes.io/zone'],
  ),
  suspectAfter: time('age of the last sign of life of a suspect node', '40s', 10 * SECOND, HOUR),
  deadAfter: time('age of the last sign of life of a dead node', '2m', 0, DAY),
  fenceWhen: z._default(
    choice(['needed', 'always'], 'needed: only nodes with pods or volumes that nobody else would free'),
    'needed',
  ),
  kubeletAnswers: z._default(choice(['hold', 'ignore'], 'what a kubelet that still answers does to a fencing'), 'hold'),
  settle: time('wait after start, election, return of the API and clock jumps', '2m', 30 * SECOND, HOUR),
  plannedWait: time('how long a node that announced a shutdown may stay silent', '15m', 0, DAY),
  otherOwner: z._default(choice(['respect', 'ignore'], 'nodes that another fencer has marked'), 'respect'),
  ...limits,
  requireRehearsal: z._default(flag('fence only nodes whose wiring was rehearsed'), false),
  history: z.prefault(
    z.strictObject({
      days: count('age of the oldest record', 30, 1, 3_650),
      entries: count('number of records', 200, 1, 5_000),
    }),
    {},
  ),
  http: httpSection('127.0.0.1:20260'),
  socket: z._default(
    socketPath('unix socket for status and explain; mode 0660', '/run/nodewarden-guard/guard.sock'),
    '/run/nodewarden-guard/guard.sock',
  ),
  stateDirectory: z._default(ownDirectory('local record', '/var/lib/nodewarden-guard'), '/var/lib/nodewarden-guard'),
  log: logSection,
  fencing,
};

export const guardSchema = z
  .strictObject({ apiVersion: z.literal(NODEWARDEN_API_VERSION), kind: z.literal(GUARD_KIND), ...fields })
  .check(
    z.meta({
      title: GUARD_KIND,
      description:
        'Checked but not expressed in this schema: exact syntax and bounds of durations and percentages; names; how deadAfter relates to suspectAfter; which agents prove what; parameters of agents; devices that two nodes would share.',
    }),
  );
/** All but the devices, for a scenario. */
export const guardRulesSchema = z.omit(z.strictObject(fields), { fencing: true });
export const GUARD_FIELDS: readonly string[] = Object.keys(fields);
export type GuardValues = z.output<typeof guardSchema>;

/** The JSON Schema, for editors. config/guard-schema.json is generated from it. */
export function guardJsonSchema(): { readonly [key: string]: unknown } {
  return z.toJSONSchema(guardSchema, { target: 'draft-2020-12', io: 'input' });
}
