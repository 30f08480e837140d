import { freshScenes } from './fresh.ts';
import type { TruthScene } from './truth.ts';

/** All scenes, in the order in which they are played. A new area is a file here, and a line below. */
export const SCENES: readonly TruthScene[] = [...freshScenes];
