/** Why an act is not sent any more. `isEnding`: what that says about the end of its pod; null: nothing. */
export type Moot = { readonly answer: string; readonly isEnding: boolean | null };
export const TOO_LATE: Moot = {
  answer: 'it was more than 5 minutes old, and the API server had not accepted it',
  isEnding: null,
};
export const ENDING: Moot = { answer: 'the API server shows the pod as being deleted', isEnding: true };
/** Nobody restarts it, and its object holds what it was run for. */
export const OVER: Moot = { answer: 'the API server shows that the pod has ended', isEnding: false };
export const REPLACED = 'that of a later decision for the same pod took its place';
export const GONE = 'the API server shows the pod as gone';
export const RECOVERED: Moot = { answer: 'the pod had run again, ready, for a minute', isEnding: false };
/** What it was decided on is in another cluster, or the pods were lost with the node. */
export const OF_ANOTHER_NODE: Moot = {
  answer: 'the API server has another Node object for this machine: the node was made anew, or this is another cluster',
  isEnding: null,
};
