/** kubelet-eviction.md 7.3: what the API is told of an evicted pod. */
export type PodStatus = {
  readonly phase: 'Failed';
  readonly reason: 'Evicted';
  readonly message: string;
  readonly conditions: readonly {
    readonly type: 'DisruptionTarget';
    readonly status: 'True';
    readonly reason: 'TerminationByKubelet';
    readonly message: string;
  }[];
};
