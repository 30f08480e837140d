import { mkdirSync, rmdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { unitsIn } from '../../src/standalone/stop/slice-units.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';

it.skipIf(needsCgroups !== '')(`what runs in a slice is found from the cgroups in it ${needsCgroups}`, () => {
  if (mounts === null) return;
  const { memory } = mounts;
  const slice = `nwslice${process.pid}.slice`;
  const inner = `nwslice${process.pid}-in.slice`;
  const paths = ['', '/web.service', '/web.service/app.service', '/_memory.service', '/x.scope', '/junk'];
  const all = [...paths, `/${inner}`, `/${inner}/db.service`].map((path) => `${memory}/${slice}${path}`);
  for (const path of all) mkdirSync(path);
  try {
    expect(unitsIn(mounts, slice).toSorted()).toEqual(['db.service', 'memory.service', 'web.service', 'x.scope']);
    expect(unitsIn(mounts, 'nwnone.slice')).toEqual([]);
  } finally {
    for (const path of all.toReversed()) rmdirSync(path);
  }
});
