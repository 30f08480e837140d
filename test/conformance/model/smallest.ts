import type { Json } from './json.ts';

/**
 * The scenario with every part left out that `stillDiffers` does not need: list elements and object keys, from the
 * outside in, until nothing more can go. A part that cannot be judged (the model throws) is kept.
 */
export function smallest(scenario: Json, stillDiffers: (smaller: Json) => boolean): Json {
  const holds = (candidate: Json) => {
    try {
      return stillDiffers(candidate);
    } catch {
      // The model does not read malformed scenarios, and a part that makes it one has to stay.
      return false;
    }
  };
  let least = scenario;
  for (let before = ''; before !== JSON.stringify(least); ) {
    before = JSON.stringify(least);
    least = without(least, (part) => part, holds);
  }
  return least;
}

/** `whole` puts a part back into its scenario. */
function without(value: Json, whole: (part: Json) => Json, holds: (scenario: Json) => boolean): Json {
  if (value === null || typeof value !== 'object') return value;
  let kept: Json = value;
  const keys = Array.isArray(value) ? value.map((_, index) => String(index)).toReversed() : Object.keys(value);
  for (const key of keys) {
    const smaller = leftOut(kept, key);
    if (holds(whole(smaller))) {
      kept = smaller;
      continue;
    }
    const current: Json = kept;
    const inner = without(innerOf(current, key), (part) => whole(replaced(current, key, part)), holds);
    kept = replaced(current, key, inner);
  }
  return kept;
}

function innerOf(value: Json, key: string): Json {
  return new Map(Object.entries(value ?? {})).get(key) ?? null;
}

function leftOut(value: Json, key: string): Json {
  if (Array.isArray(value)) return value.filter((_, index) => String(index) !== key);
  return Object.fromEntries(Object.entries(value ?? {}).filter(([name]) => name !== key));
}

function replaced(value: Json, key: string, part: Json): Json {
  if (Array.isArray(value)) return value.map((one, index) => (String(index) === key ? part : one));
  return Object.fromEntries(Object.entries(value ?? {}).map(([name, one]) => [name, name === key ? part : one]));
}
