import { directoryHangs } from '../host/disk/hung-disk.ts';
import { withRights } from './denied.ts';
import { clean } from './print.ts';

/** The exit status if a part of the record exists and cannot be read. */
export const NOT_READ = 1;

/** If so, says it and sets the exit status: reading the record would wait for as long as its file system hangs. */
export async function isRecordHung(stateDirectory: string): Promise<boolean> {
  const hangs = await directoryHangs(stateDirectory);
  if (hangs === null) return false;
  const why = withRights(`${stateDirectory}: ${hangs.detail}`, 'to-read');
  process.stderr.write(`not read: ${clean(why)}\n`);
  process.exitCode = NOT_READ;
  return true;
}
