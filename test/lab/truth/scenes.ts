import { crowdScenes } from './crowd.ts';
import { diskScenes } from './disk.ts';
import { episodeScenes } from './episodes.ts';
import { escapedScenes } from './escaped.ts';
import { freshScenes } from './fresh.ts';
import { helperScenes, helperUnitScenes } from './helpers.ts';
import { manifestScenes } from './manifests.ts';
import { ownFileScenes } from './own-files.ts';
import { pidScenes } from './pids.ts';
import { randomScenes } from './random.ts';
import { reloadScenes } from './reload.ts';
import { resistScenes } from './resist.ts';
import { scratchScenes, scratchUnitScenes } from './scratch.ts';
import { starvedScenes } from './starved.ts';
import { stuckScenes } from './stuck.ts';
import { tenantScenes } from './tenant.ts';
import { tieScenes } from './ties.ts';
import type { TruthScene, UnitTruth } from './truth.ts';
import { unansweredScenes } from './unanswered.ts';
import { unitScenes } from './units.ts';
import { unsureScenes } from './unsure.ts';

/** All scenes, in the order in which they are played. A new area is a file here, and a line below. */
export const SCENES: readonly TruthScene[] = [
  ...freshScenes,
  ...starvedScenes,
  ...stuckScenes,
  ...resistScenes,
  ...escapedScenes,
  ...tenantScenes,
  ...unsureScenes,
  ...crowdScenes,
  ...pidScenes,
  ...episodeScenes,
  ...ownFileScenes,
  ...manifestScenes,
  ...reloadScenes,
  ...diskScenes,
  ...scratchScenes,
  ...helperScenes,
  ...randomScenes,
];

/** The same for those that need a real systemd. */
export const UNIT_SCENES: readonly UnitTruth[] = [
  ...unitScenes,
  ...tieScenes,
  ...unansweredScenes,
  ...scratchUnitScenes,
  ...helperUnitScenes,
];
