import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { createClock, sleep } from '../../src/host/clock.ts';
import { askDaemon } from '../../src/serve/ask.ts';

export type AgentPlaces = {
  readonly configFile: string;
  readonly manifests: string;
  readonly stateDirectory: string;
  readonly runtimeDirectory: string;
  readonly socket: string;
};
export type Agent = {
  readonly places: AgentPlaces;
  /** The program, to which a command is appended. */
  readonly command: readonly string[];
  /** Resolves when it observes. */
  readonly start: () => Promise<void>;
  /** False before its start, and when it ended for whatever reason. */
  readonly isRunning: () => boolean;
  /** To the agent itself. */
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Asks it to read its configuration again. */
  readonly reload: () => void;
  /** SIGKILL; resolves when it is gone. */
  readonly crash: () => Promise<void>;
  readonly log: () => string;
  /** A clean stop; throws when it was none. Leaves nothing of this scene. */
  readonly close: () => Promise<void>;
};

/** Ends only a run that hangs: an emulated guest on a busy machine takes a minute for what takes a second. */
const READY_DEADLINE_MS = 120_000;
const clock = createClock();

/**
 * The built agent as a child of ours. NODEWARDEN_BUNDLE names another bundle than that of the repository, NODEWARDEN_NODE
 * another node. `openFiles`: how many it may have open.
 */
export function ownAgent(directory: string, openFiles?: number): Agent {
  const bundle = process.env['NODEWARDEN_BUNDLE'] ?? path.join(import.meta.dirname, '../../dist/nodewarden.js');
  const node = process.env['NODEWARDEN_NODE'] ?? process.execPath;
  const command = [node, bundle];
  const limited = openFiles === undefined ? [] : ['prlimit', `--nofile=${openFiles}`];
  const logFile = path.join(directory, 'agent.log');
  // On tmpfs, as /run is where the service runs.
  const runtimeDirectory = fs.mkdtempSync('/dev/shm/nodewarden-lab-');
  const places = {
    configFile: path.join(directory, 'config.yaml'),
    manifests: path.join(directory, 'pods.d'),
    stateDirectory: path.join(directory, 'state'),
    runtimeDirectory,
    socket: path.join(runtimeDirectory, 'nodewarden.sock'),
  };
  for (const made of [places.manifests, places.stateDirectory]) fs.mkdirSync(made, { mode: 0o700 });
  let child: ReturnType<typeof spawn> | null = null;
  return {
    places,
    command,
    start: async () => {
      const log = fs.openSync(logFile, 'a');
      const [program = '', ...args] = [...favoured(), ...limited, ...command, 'run', '--config', places.configFile];
      child = spawn(program, args, { stdio: ['ignore', log, log], detached: true });
      fs.closeSync(log);
      const endMs = clock.monoMs() + READY_DEADLINE_MS;
      while ((await askDaemon(places.socket, { ask: 'status' }, clock)).kind !== 'answer') {
        if (child.exitCode !== null) throw new Error(`the agent ended: ${fs.readFileSync(logFile, 'utf8')}`);
        if (clock.monoMs() > endMs) throw new Error('the agent is not ready');
        await sleep(clock, 50);
      }
    },
    isRunning: () => child !== null && child.exitCode === null && child.signalCode === null,
    signal: (signal) => void child?.kill(signal),
    reload: () => void child?.kill('SIGHUP'),
    crash: async () => {
      if (child === null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
    log: () => fs.readFileSync(logFile, 'utf8'),
    close: async () => {
      if (child === null) return;
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        const cancel = clock.after(10_000, () => void child?.kill('SIGKILL'));
        await once(child, 'exit');
        cancel();
      }
      fs.rmSync(runtimeDirectory, { recursive: true });
      if (child.exitCode !== 0) {
        throw new Error(
          `the agent ended with ${child.exitCode ?? child.signalCode}: ${fs.readFileSync(logFile, 'utf8').slice(-4000)}`,
        );
      }
    },
  };
}

/**
 * As its unit runs it: CPUSchedulingPolicy=rr, which neither its threads nor its children inherit. Where that is refused it
 * runs as it is, and the lab says so once.
 */
function favoured(): readonly string[] {
  const realTime = ['chrt', '--reset-on-fork', '--rr', '1'];
  isFavoured ??= spawnSync('chrt', [...realTime.slice(1), 'true'], { stdio: 'ignore' }).status === 0;
  if (isFavoured) return realTime;
  if (!isRefusalTold)
    console.log('no real-time priority here (chrt --rr 1 true fails): the agent is later than its unit would be');
  isRefusalTold = true;
  return [];
}
let isFavoured: boolean | null = null;
let isRefusalTold = false;

/** What install.sh installed, started and stopped by systemd. Its configuration is replaced, its record begun anew. */
export function installedAgent(): Agent {
  const places = {
    configFile: '/etc/nodewarden/config.yaml',
    manifests: '/etc/nodewarden/pods.d',
    stateDirectory: '/var/lib/nodewarden',
    runtimeDirectory: '/run/nodewarden',
    socket: '/run/nodewarden/nodewarden.sock',
  };
  const clear = (): void => {
    for (const directory of [places.manifests, places.stateDirectory, places.runtimeDirectory]) {
      for (const name of fs.existsSync(directory) ? fs.readdirSync(directory) : []) {
        fs.rmSync(path.join(directory, name), { recursive: true });
      }
    }
  };
  const journal = (): string =>
    execFileSync('journalctl', ['--unit=nodewarden', '--output=cat', '--no-pager', `--after-cursor=${cursor}`], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    });
  const cursor =
    /-- cursor: (.*)/.exec(
      execFileSync('journalctl', ['-n', '1', '--show-cursor', '--no-pager'], { encoding: 'utf8' }),
    )?.[1] ?? '';
  clear();
  return {
    places,
    command: ['nodewarden'],
    start: async () => {
      // Type=notify: returns when the agent said READY.
      execFileSync('systemctl', ['start', 'nodewarden'], {
        timeout: READY_DEADLINE_MS,
        stdio: ['ignore', 'ignore', 'inherit'],
      });
    },
    isRunning: () =>
      execFileSync('systemctl', ['show', '-P', 'ActiveState', 'nodewarden'], { encoding: 'utf8' }).trim() === 'active',
    signal: (signal) => void execFileSync('systemctl', ['kill', '--kill-who=main', `--signal=${signal}`, 'nodewarden']),
    reload: () => void execFileSync('systemctl', ['reload', 'nodewarden']),
    crash: async () => {
      const pid = execFileSync('systemctl', ['show', '-P', 'MainPID', 'nodewarden'], { encoding: 'utf8' }).trim();
      execFileSync('systemctl', ['kill', '--kill-who=main', '--signal=SIGKILL', 'nodewarden']);
      while (fs.existsSync(`/proc/${pid}`)) await sleep(clock, 5);
    },
    log: () => {
      execFileSync('journalctl', ['--sync']);
      return journal();
    },
    close: async () => {
      execFileSync('systemctl', ['stop', 'nodewarden']);
      const result = execFileSync('systemctl', ['show', '-P', 'Result', 'nodewarden'], { encoding: 'utf8' }).trim();
      if (result !== 'success') throw new Error(`the service ended with ${result}: ${journal().slice(-4000)}`);
      clear();
    },
  };
}
