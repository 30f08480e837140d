/** What the guard writes for people into the cluster. */

/** The message of the condition NodewardenFenced. */
export const sayFenced = (id: string): string => `proven off by nodewarden guard, and out of service (fencing ${id})`;
