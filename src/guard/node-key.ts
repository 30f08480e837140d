import { createHash } from 'node:crypto';

/** What fencings of a node are named after (`NodeObject.key`): fit for a ConfigMap's name, whatever its uid is. */
export const nodeKey = (uid: string): string => createHash('sha256').update(uid).digest('hex').slice(0, 16);
