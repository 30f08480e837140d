import { join } from 'node:path';
import { toCoreConfig } from '../../src/config/core-config.ts';
import { configOf } from '../../src/config/load.ts';
import { decide } from '../../src/core/decide.ts';
import { initialState } from '../../src/core/state/state.ts';
import { escapeUnsafe } from '../../src/core/units/escape.ts';
import { type Dialect, parseDocuments, type YamlDocument } from '../../src/document/document.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { readAnnotations } from '../../src/standalone/manifests/annotation.ts';
import { parseManifest } from '../../src/standalone/manifests/manifest.ts';
import { anObservation, aPod, GI, MI } from '../a.ts';
import { SIZES } from '../config/a-config.ts';
import { blocksOf, filesIn, linesOf } from './corpus.ts';
import { must, placed, plain, read, same, sentence } from './oracle.ts';
import { type Example, example, type Target, type Workplace } from './target.ts';

const KUBELET_HEAD = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';

function configExamples({ root }: Workplace): readonly Example[] {
  const lines = linesOf(join(root, 'test/conformance/config.jsonl.gz'), 100_000).map((line) => JSON.parse(line));
  const configs = lines.filter(({ config }) => typeof config === 'object' && config !== null);
  return [
    ...filesIn(join(root, 'config'), '.yaml').filter(({ body }) => body.includes('Configuration')),
    ...blocksOf(join(root, 'docs/configure.md'), 'yaml'),
    ...configs
      .filter((_, i) => i % 12 === 0)
      .map(({ config }) =>
        example(
          KUBELET_HEAD +
            JSON.stringify(config)
              .slice(1, -1)
              .replaceAll(/([}\]"0-9]),"/g, '$1\n"'),
        ),
      ),
    ...configs
      .filter((_, i) => i % 24 === 0)
      .map(({ config }) =>
        example(JSON.stringify({ apiVersion: 'nodewarden.dev/v1alpha1', kind: 'NodewardenConfiguration', ...config })),
      ),
  ];
}

const configurations: Target = {
  name: 'configuration',
  syntax: 'yaml',
  examples: configExamples,
  open: () => (input) => {
    const text = input.toString();
    const loaded = configOf(text, 'c.yaml', SIZES);
    placed(loaded.problems, text);
    must((loaded.effective === null) === loaded.problems.length > 0, 'refused without a problem, or accepted with one');
    for (const { text } of loaded.warnings) sentence(escapeUnsafe(text), 'a warning');
    same(configOf(text, 'c.yaml', SIZES), loaded, 'a configuration is read in two ways');
    if (loaded.effective === null) return false;
    const config = toCoreConfig(loaded.effective, 2);
    const pods = {
      known: true,
      value: [aPod({ name: 'a', workingSetBytes: GI }), aPod({ name: 'b', diskBytes: GI })],
    } as const;
    const signals = {
      'memory.available': { available: MI, capacity: GI },
      'nodefs.available': { available: MI, capacity: GI },
      'pid.available': { available: 1, capacity: 32_768 },
    };
    let state = initialState('boot');
    for (const atMs of [0, 10_000, 4_000_000])
      state = decide(state, anObservation(atMs, signals, { pods }), config).state;
    return true;
  },
};

function podExamples({ root }: Workplace): readonly Example[] {
  return [
    ...filesIn(join(root, 'config/pods.d'), '.yaml'),
    ...blocksOf(join(root, 'README.md'), 'yaml'),
    ...linesOf(join(root, 'test/conformance/eviction.jsonl.gz'), 30).map((line) => {
      const { pods } = JSON.parse(line);
      const items = (Array.isArray(pods) ? pods : []).map((pod, i) => ({
        ...pod,
        metadata: { ...pod.metadata, annotations: { 'nodewarden.dev/systemd-unit': `unit-${i}.service` } },
      }));
      return example(JSON.stringify({ apiVersion: 'v1', kind: 'PodList', items }));
    }),
  ];
}

const manifests: Target = {
  name: 'manifest',
  syntax: 'yaml',
  examples: podExamples,
  open: () => (input) => {
    const text = input.toString();
    const { pods, problems } = parseManifest(text, 'm.yaml');
    placed(problems, text);
    for (const { declared, problem } of pods) {
      read({ ...declared, priority: 0 }, 'a pod of a manifest');
      placed([problem('found later')], text);
      sentence(`${declared.namespace}/${declared.name} ${declared.uid}`, 'the name of a pod');
    }
    same(parseManifest(text, 'm.yaml'), { pods, problems }, 'a manifest is read in two ways');
    return problems.length === 0 && pods.length > 0;
  },
};

/** Every mapping and list of a document can be pointed at, and a place that is not there as well. */
function pointed(document: YamlDocument, text: string): void {
  let left = 50;
  const point = (value: unknown, path: readonly (string | number)[]): void => {
    if (left-- <= 0) return;
    placed([document.problemAt(path, 'here'), document.problemAt([...path, 'not', 0, 'there'], 'here', 'key')], text);
    if (typeof value !== 'object' || value === null) return;
    for (const [key, entry] of Object.entries(value)) point(entry, [...path, Array.isArray(value) ? Number(key) : key]);
  };
  point(document.value, []);
}

function documents(dialect: Dialect): Target {
  return {
    name: `yaml-${dialect}`,
    syntax: 'yaml',
    examples: (place) => [...configExamples(place), ...podExamples(place)],
    open: () => (input) => {
      const text = input.toString();
      const parsed = parseDocuments(text, 'd.yaml', dialect);
      placed(parsed.problems, text);
      for (const document of parsed.documents.slice(0, 20)) {
        plain(document.value);
        pointed(document, text);
      }
      return parsed.problems.length === 0 && parsed.documents.length > 0;
    },
  };
}

const annotations: Target = {
  name: 'annotation',
  syntax: 'json',
  examples: () =>
    [
      { 'nodewarden.dev/systemd-unit': 'web.service', 'nodewarden.dev/after-eviction': 'stay' },
      { 'nodewarden.dev/cgroup': '/batch/one', 'nodewarden.dev/disk': '/srv/web, /var/log/web' },
      { 'nodewarden.dev/podman': 'database', 'nodewarden.dev/protect': 'true' },
    ].map((given) => example(JSON.stringify(given))),
  open: () => (input) => {
    const { documents } = parseDocuments(input.toString(), 'a.yaml', 'kubelet');
    const given: { [name: string]: string } = Object.create(null);
    for (const [name, value] of Object.entries(documents[0]?.value ?? {}))
      given[name] = typeof value === 'string' ? value : JSON.stringify(value);
    const { mistakes, annotations: found } = readAnnotations(given);
    for (const { name, text } of mistakes) {
      const said = sayProblem({ file: 'a.yaml', line: 1, column: 1, path: name, text });
      sentence(said, 'a mistake in an annotation');
    }
    const path = found.target?.kind === 'cgroup' ? found.target.path : '/a';
    const isSafe = path.startsWith('/') && path !== '/' && !/(^|\/)\.{1,2}(\/|$)|\0|\/\//.test(path);
    must(isSafe, 'a cgroup outside cgroupRoot is taken', () => path);
    must(mistakes.length > 0 || found.target !== null, 'accepted without a binding');
    return mistakes.length === 0;
  },
};

export const DOCUMENT_TARGETS: readonly Target[] = [
  configurations,
  manifests,
  documents('ours'),
  documents('kubelet'),
  annotations,
];
