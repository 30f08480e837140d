/** The model against the recorded answers of the kubelet, compared by code of its own: the proof that it read the texts rightly. */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { evictionModel } from './eviction-model.ts';
import { canonical, disagreements } from './expect.ts';
import { at, entriesOf, type Json, listOf } from './json.ts';
import { shutdownModel } from './shutdown-model.ts';

/** `every`: 1 takes all scenarios of the files, n every n-th. */
export function recordedDisagreements(every: number): { readonly compared: number; readonly wrong: readonly string[] } {
  const evictions = scenariosOf('eviction.jsonl.gz', every);
  const shutdowns = scenariosOf('shutdown.jsonl.gz', every);
  const wrong = [
    ...evictions.flatMap((scenario) => {
      const results = evictionModel(scenario) as readonly unknown[] as readonly Json[];
      return listOf(at(scenario, 'steps')).flatMap((step, index) =>
        disagreements(at(step, 'expect'), results[index] ?? null).map((what) => say(scenario, index + 1, what)),
      );
    }),
    ...shutdowns.flatMap((scenario) => {
      const { result } = shutdownModel(scenario);
      return Object.entries(entriesOf(at(scenario, 'expect')))
        .filter(([key, value]) => asText(key, value) !== asText(key, at(result, key)))
        .map(([key]) => say(scenario, 0, key));
    }),
  ];
  return { compared: evictions.length + shutdowns.length, wrong };
}

const asText = (key: string, value: Json) =>
  key === 'configErrors' ? canonical(listOf(value).map(canonical).sort()) : canonical(value);

function say(scenario: Json, step: number, what: string): string {
  return `${String(at(scenario, 'metadata', 'name'))}${step === 0 ? '' : ` step ${step}`}: ${what}`;
}

function scenariosOf(name: string, every: number): readonly Json[] {
  const lines = gunzipSync(readFileSync(new URL(`../${name}`, import.meta.url)))
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '');
  return lines.filter((_, index) => index % every === 0).map((line) => JSON.parse(line) as Json);
}
