import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { GUARD_METRICS } from '../../src/guard/metrics.ts';
import { METRIC_NAMES } from '../../src/serve/metrics.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const read = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');
const ALERTS = 'config/prometheus/alerts.yaml';
const DASHBOARD = 'config/prometheus/dashboard.json';

type Rule = { readonly alert: string; readonly expr: string; readonly annotations: { readonly runbook: string } };
const rules: readonly Rule[] = parse(read(ALERTS)).groups.flatMap(({ rules: some }: { rules: Rule[] }) => some);
const TESTS = ['alerts', 'guard-alerts', 'guard-dry-run-alert'].map((name) => `test/serve/${name}.promtool.yaml`);
const METRICS = [...METRIC_NAMES, ...Object.keys(GUARD_METRICS)];

/** Every expression of the dashboard, those of its variables apart. */
function expressions(): readonly string[] {
  const found: string[] = [];
  JSON.parse(read(DASHBOARD), (key, value) => {
    if (key === 'expr') found.push(value);
    return value;
  });
  return found;
}

const namesIn = (text: string): readonly string[] => [...new Set(text.match(/\bnodewarden_[a-z_]+\b/g))];
const OF_HISTOGRAM = /_(bucket|sum|count)$/;
const isThere = (name: string): boolean => METRICS.includes(name) || METRICS.includes(name.replace(OF_HISTOGRAM, ''));

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
const promtool = (...args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8', cwd: ROOT });
  return { status, said: `${stdout}${stderr}` };
};

describe('the alerts and the dashboard', () => {
  it.each([ALERTS, DASHBOARD])('use in %s no metric that the agent does not have', (name) => {
    const names = namesIn(read(name));
    expect(names.filter((metric) => !isThere(metric))).toEqual([]);
    expect(names.length).toBeGreaterThan(1);
  });
  it('show every metric in the dashboard', () => {
    const names = namesIn(read(DASHBOARD));
    const shown = [...names, ...names.map((name) => name.replace(OF_HISTOGRAM, ''))];
    expect(METRICS.filter((name) => !shown.includes(name))).toEqual([]);
  });
  it('have a section for each alert in docs/alerts.md, named by its runbook, and no other section', () => {
    const sections = [...read('docs/alerts.md').matchAll(/^## (Nodewarden\w+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, annotations } of rules) {
      expect(annotations.runbook).toBe(`docs/alerts.md#${alert.toLowerCase()}`);
    }
  });
  it('have a test for each alert', () => {
    const tested = new Set(TESTS.flatMap((file) => read(file).match(/\bNodewarden\w+/g) ?? []));
    expect([...tested].sort()).toEqual(rules.map(({ alert }) => alert).sort());
  });

  it.runIf(hasPromtool)("pass Prometheus's checks and tests", () => {
    expect(promtool('check', 'rules', ALERTS)).toMatchObject({ status: 0 });
    expect(promtool('test', 'rules', ...TESTS)).toEqual({
      status: 0,
      said: expect.stringContaining('SUCCESS'),
    });
  });
  it.runIf(hasPromtool)('have only expressions in the dashboard that Prometheus parses', () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'nodewarden-dashboard-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const file = path.join(directory, 'rules.yaml');
    const recorded = expressions().map((expr, i) => ({
      record: `r${i}`,
      expr: expr.replaceAll('$__rate_interval', '5m'),
    }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
    expect(promtool('check', 'rules', file)).toEqual({
      status: 0,
      said: expect.stringContaining(`${recorded.length} rules`),
    });
  });
});
