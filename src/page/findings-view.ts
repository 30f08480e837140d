import type { StatusReport } from '../serve/status.ts';
import { byId, el, emptyNote, keep, setText } from './dom.ts';

export function showFindings({ findings, warnings }: Pick<StatusReport, 'findings' | 'warnings'>): void {
  const all = findings.length + warnings.length;
  const count = byId('findings-count');
  count.hidden = all === 0;
  setText(count, String(all));
  keep(byId('findings-body'), [
    ...(findings.length === 0
      ? [emptyNote('No findings.', 'A problem that needs your attention would be listed here, with what to do.')]
      : [
          listOf(
            'finding',
            findings.map(({ text }) => text),
          ),
        ]),
    ...(warnings.length === 0 ? [] : [el('h3', {}, 'About the configuration'), listOf('warning', warnings)]),
  ]);
}

const listOf = (kind: string, texts: readonly string[]): HTMLElement =>
  el('ul', { class: `findings ${kind}` }, ...texts.map((text) => el('li', {}, text)));
