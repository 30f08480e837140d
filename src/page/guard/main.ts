import type { GuardLive } from '../../guard/shown.ts';
import { sayPhaseOf } from '../../words/guard-history.ts';
import { showFindings } from '../both-pages.ts';
import { createNews } from '../dom.ts';
import { createLive, every, LIVE_MS } from '../live.ts';
import { showFencings, showPast } from './fencings-view.ts';
import { showGates } from './gates-view.ts';
import { sayNotBelieved, showHead, showTiles, showVerdict } from './head-view.ts';
import { allOf, showDomains, showNodes } from './nodes-view.ts';

/** An answer costs the guard some time for each node, and a page may use less than 1 % of a core. */
const LIVE_NODE_MS = 1;

const hear = createNews();
const live = createLive<GuardLive>({
  words: { who: 'guard', look: 'look', looked: 'looked' },
  atWallMs: ({ status }) => status.atWallMs,
  heard: (answer) => {
    const { status } = answer;
    const now = live.nowWallMs();
    showHead(status);
    showVerdict(answer);
    showTiles(answer);
    showFencings(answer, now);
    showGates(answer, now);
    showNodes(answer, now);
    showDomains(answer);
    showPast(answer, now);
    showFindings({ findings: [...status.findings, ...sayNotBelieved(status)], warnings: [] });
    hear([
      ...answer.fencings.rows.map(({ record }) => ({
        key: `${record.id} ${record.phase}`,
        text: `${record.node.name}: ${sayPhaseOf(record, record.phase)}`,
      })),
      ...status.storms.map(({ kind, scope, overMs }) => ({
        key: `${kind} ${scope} ${overMs === null}`,
        text: `Storm (${scope}) ${overMs === null ? 'began' : 'is over'}`,
      })),
    ]);
  },
});

function livePaceMs(): number {
  const last = live.isLost() ? null : live.last();
  return LIVE_MS + (last === null ? 0 : LIVE_NODE_MS * allOf(last.status.nodes));
}

every(livePaceMs, live.ask);
