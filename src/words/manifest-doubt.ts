/** What it is called before the name that was probably meant: nothing reads it. */
export const UNREAD = {
  field: 'field, without effect',
  resource: 'resource, without effect',
  annotation: 'annotation, without effect',
} as const;

export const belongsAt = (place: string): string => `unknown ${UNREAD.field} here; did you mean ${place}?`;
export const empty = 'empty, so it counts as absent';
export const noLabel = 'a label has no effect; did you mean an annotation, in metadata.annotations?';
