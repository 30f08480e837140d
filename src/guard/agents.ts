import { type AgentMetadata, MAX_METADATA_BYTES, readAgentMetadata } from '../config/guard/agent-metadata.ts';
import type { GuardMethod } from '../config/guard/method.ts';
import { type AgentAction, type AgentEnd, BEGIN_WITHIN_MS } from '../core/guard/agent-run.ts';
import type { PowerState } from '../core/guard/record.ts';
import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { readSecret } from '../host/own/secret-file.ts';
import { agentVersion, runFenceAgent } from '../host/process/fence-agent.ts';
import { familyOf, tellsInArguments } from '../host/process/process-family.ts';
import type { Clock } from '../ports.ts';
import { agentInput, doneIn, metadataIn, powerIn, redactOutput } from './agent-io.ts';

type Times = { readonly begunMs: MonoMs; readonly endedMs: MonoMs };
/** What a device said about its power. The only thing that a proof is made of. */
export type PowerAnswer = Times & { readonly power: Reading<PowerState> };
/** What an agent said about its own `off` or `on`; unknown: nothing is known. It says nothing about the power (G1). */
export type CommandClaim = Times & {
  readonly saysDone: Reading<true>;
  /** It was not begun, because it was too late for it. */
  readonly isWithheld: boolean;
};

/** Why a command must not begin, asked right before it would; null: it may. */
export type WhyNot = () => string | null;

export type Agents = {
  readonly status: (method: GuardMethod, purpose: Purpose) => Promise<PowerAnswer>;
  /** Not begun, and unknown, if `whyNot` gives a reason at that moment, or if it cannot be begun at once. */
  readonly command: (method: GuardMethod, action: 'off' | 'on', whyNot: WhyNot) => Promise<CommandClaim>;
  /** What an agent says that it knows; asked again only when its file has changed. */
  readonly metadata: (agent: string) => Promise<Reading<AgentMetadata>>;
  /** A status, and where secrets of the method could be read meanwhile by whoever may see the processes of this machine. */
  readonly exposure: (method: GuardMethod) => Promise<PowerAnswer & { readonly exposed: readonly ExposedSecret[] }>;
};

export type AgentNeeds = {
  readonly clock: Clock;
  readonly settings: () => {
    /** Of one run, from its start. */
    readonly deadlineMs: number;
    readonly secretDirectory: string;
  };
  readonly agentDirectory?: string;
  /** Called after each run but those for metadata, and those that were withheld. */
  readonly ran?: (run: AgentRan) => void;
};
/** `result`: `ok`, or why nothing is known. */
export type AgentRan = {
  readonly agent: string;
  readonly action: AgentAction;
  readonly result: 'ok' | Unknown['why'];
  readonly tookMs: number;
};

const OUTPUT_BYTES = 64 * 1024;
const METADATA_INPUT = 'action=metadata\n';

/** Runs fence agents: a few at once, each within the deadline. Nothing rejects. */
export function createAgents({ clock, settings, agentDirectory, ran }: AgentNeeds): Agents {
  const slots = createSlots();
  const told = new Map<string, { readonly version: string; readonly metadata: AgentMetadata }>();
  const directory = agentDirectory === undefined ? {} : { directory: agentDirectory };

  const start = (agent: string, input: string, maxOutputBytes: number, started?: (pid: number) => void) =>
    runFenceAgent(
      { agent, input, maxOutputBytes, deadlineMs: settings().deadlineMs, ...(started && { started }), ...directory },
      clock,
    );

  const metadataOf = async (agent: string, purpose: Purpose): Promise<Reading<AgentMetadata>> => {
    const version = agentVersion(agent, agentDirectory);
    const kept = told.get(agent);
    if (kept?.version === version) return known(kept.metadata);
    const document = await slots(purpose, async () =>
      metadataIn(await start(agent, METADATA_INPUT, MAX_METADATA_BYTES), agent),
    );
    const metadata = document.known ? readAgentMetadata(document.value, agent) : document;
    if (metadata.known) told.set(agent, { version, metadata: metadata.value });
    return metadata;
  };

  /** Secrets are read anew for each run, and never leave it. */
  const inputOf = (method: GuardMethod, action: AgentAction, { parameters }: AgentMetadata): Reading<Input> => {
    const values: { [name: string]: string } = { ...method.parameters };
    const secrets: string[] = [];
    for (const [name, file] of Object.entries(method.secrets)) {
      const secret = readSecret(settings().secretDirectory, file);
      if (!secret.known) return secret;
      values[name] = secret.value;
      secrets.push(secret.value);
    }
    const text = agentInput(action, values, new Set(parameters.map(({ name }) => name)));
    return text.known ? known({ text: text.value, secrets }) : text;
  };

  const run = async <T>(order: Order, read: (end: AgentEnd, where: string) => Reading<T>): Promise<Run<T>> => {
    const { method, action, purpose, whyNot, watch } = order;
    const askedMs = clock.monoMs();
    let begunMs = askedMs;
    let isWithheld = false;
    const withhold = (why: 'timed-out' | 'not-asked', detail: string): Unknown => {
      isWithheld = true;
      return unknown(why, method.key, detail);
    };
    const metadata = await metadataOf(method.agent, purpose);
    const result = await slots(purpose, async (): Promise<Reading<T>> => {
      if (!metadata.known) return metadata;
      const input = inputOf(method, action, metadata.value);
      if (!input.known) return unknown(input.why, method.key, `${input.where}: ${input.detail}`);
      const { text, secrets } = input.value;
      begunMs = clock.monoMs();
      if (whyNot !== undefined && begunMs - askedMs > BEGIN_WITHIN_MS)
        return withhold('timed-out', `it could not be begun within ${BEGIN_WITHIN_MS} ms, and was not`);
      const why = whyNot?.() ?? null;
      if (why !== null) return withhold('not-asked', `it was not begun: ${why}`);
      const end = await start(method.agent, text, OUTPUT_BYTES, watch && ((pid) => watch(pid, secrets)));
      return read(end.kind === 'not-started' ? end : { ...end, ...redactOutput(end, secrets) }, method.key);
    });
    const endedMs = clock.monoMs();
    const { agent } = method;
    if (!isWithheld) ran?.({ agent, action, result: result.known ? 'ok' : result.why, tookMs: endedMs - begunMs });
    return { result, isWithheld, begunMs, endedMs };
  };

  return {
    status: async (method, purpose) => {
      const { result, begunMs, endedMs } = await run({ method, action: 'status', purpose }, powerIn);
      return { power: result, begunMs, endedMs };
    },
    command: async (method, action, whyNot) => {
      const { result, ...rest } = await run({ method, action, purpose: 'fencing', whyNot }, doneIn);
      return { saysDone: result, ...rest };
    },
    metadata: (agent) => metadataOf(agent, 'dead'),
    exposure: async (method) => {
      const watching = watchSecrets(clock);
      const { result, begunMs, endedMs } = await run(
        { method, action: 'status', purpose: 'dead', watch: watching.begin },
        powerIn,
      );
      return { power: result, begunMs, endedMs, exposed: watching.end() };
    },
  };
}

type Input = { readonly text: string; readonly secrets: readonly string[] };
type Order = {
  readonly method: GuardMethod;
  readonly action: AgentAction;
  readonly purpose: Purpose;
  readonly whyNot?: WhyNot;
  readonly watch?: (pid: number, secrets: readonly string[]) => void;
};
type Run<T> = Times & { readonly result: Reading<T>; readonly isWithheld: boolean };

/** What a run is for. `dead`: a decision about a node that is silent. */
type Purpose = 'fencing' | 'dead' | 'patrol';

/** Runs in all, below which one more may begin: two are left to fencings (guard.md 8.1), and one of the others to silent nodes. */
const AT_ONCE: { readonly [P in Purpose]: number } = { fencing: 6, dead: 4, patrol: 3 };
/** In the order in which they may begin. */
const PURPOSES: readonly Purpose[] = ['fencing', 'dead', 'patrol'];
const MAX_WAITING = 1_000;

/** Runs it when its turn has come; unknown: too many are waiting. */
type Slots = <T>(purpose: Purpose, run: () => Promise<Reading<T>>) => Promise<Reading<T>>;

function createSlots(): Slots {
  const waiting: { readonly [P in Purpose]: (() => void)[] } = { fencing: [], dead: [], patrol: [] };
  let running = 0;
  const begin = (): void => {
    for (const purpose of PURPOSES) {
      while (running < AT_ONCE[purpose]) {
        const next = waiting[purpose].shift();
        if (next === undefined) break;
        running += 1;
        next();
      }
    }
  };
  return async (purpose, run) => {
    if (waiting[purpose].length >= MAX_WAITING)
      return unknown('not-asked', 'agents', `${MAX_WAITING} runs of agents are waiting already`);
    await new Promise<void>((resolve) => {
      waiting[purpose].push(resolve);
      begin();
    });
    try {
      return await run();
    } finally {
      running -= 1;
      begin();
    }
  };
}

/** The name of a program that had a secret among its arguments. */
type ExposedSecret = string;

/** A program that an agent starts runs for longer than this. */
const LOOK_EVERY_MS = 5;

/** Looks at a run's processes again and again, from `begin` to `end`, for secrets in their arguments (guard.md 8.5). */
function watchSecrets(clock: Clock): {
  readonly begin: (pid: number, secrets: readonly string[]) => void;
  readonly end: () => readonly ExposedSecret[];
} {
  const found = new Set<ExposedSecret>();
  let cancel = (): void => undefined;
  return {
    begin: (pid, secrets) => {
      const look = (): void => {
        for (const one of familyOf(pid)) {
          const name = tellsInArguments(one, secrets);
          if (name !== null) found.add(name);
        }
        cancel = clock.after(LOOK_EVERY_MS, look);
      };
      look();
    },
    end: () => {
      cancel();
      return [...found];
    },
  };
}
