// The ten claims (product.md section 13), and which checks of which commands test each.
import type { PartName } from './parts.ts';

export type Use = {
  readonly part: PartName;
  /** The checks that count, by name; all by default. */
  readonly checks?: RegExp;
  /** The figures that the table shows, by the command's name for them or by the name of the check; none by default. */
  readonly figures?: RegExp;
  /** An upper limit for one figure of the command. */
  readonly atMost?: { readonly figure: string; readonly most: number; readonly unit: string };
};
export type Line = { readonly name: string; readonly claim: string; readonly uses: readonly Use[] };

const NOT_COMPARED = 'was not compared';

export const LINES: readonly Line[] = [
  {
    name: 'reaction',
    claim:
      'The growing pod is stopped before the kernel kills anything, within the promised time, on cgroup v1 and v2.',
    uses: [
      { part: 'reaction', figures: new RegExp(`^(nodewarden|earlyoom|looks each 10 s), as fast|${NOT_COMPARED}`) },
      { part: 'guest', figures: new RegExp(`^(nodewarden|earlyoom|systemd-oomd[^,]*), 50|${NOT_COMPARED}`) },
    ],
  },
  {
    name: 'page-cache',
    claim: 'Page cache causes no eviction. A pod that allocates memory beside it is evicted.',
    uses: [{ part: 'memory', figures: /^without swap/ }],
  },
  {
    name: 'one-kill',
    claim: 'A breach costs one kill, which is proven before another victim is chosen.',
    uses: [{ part: 'oneKill', figures: /./ }],
  },
  {
    name: 'hard-over-soft',
    claim: 'A hard threshold cuts the grace period of a soft eviction that is in progress.',
    uses: [{ part: 'hard', figures: /./ }],
  },
  {
    name: 'why',
    claim: "Every choice can be re-derived from its record, and the rules are the kubelet's.",
    uses: [
      { part: 'soak', checks: /mistakes|derived again|kills by the kernel/, figures: /derived again/ },
      { part: 'conformance', figures: /./ },
    ],
  },
  {
    name: 'armed',
    claim: 'A shutdown is armed with the time that logind really grants. If it is not armed, every interface says so.',
    uses: [{ part: 'armed', figures: /granted/ }],
  },
  {
    name: 'statuses',
    claim: 'The API shows deleted pods as ended before the machine is off.',
    uses: [{ part: 'kubeUp', checks: /the API shows/, figures: /the API shows/ }],
  },
  {
    name: 'no-hang',
    claim:
      "Nothing hangs at the end of a shutdown, even if a container ignores SIGTERM: the machine is off within 5 s of the last pod's end.",
    uses: [
      {
        part: 'kubeUp',
        checks: /goes down|nothing is waited for/,
        figures: /to off/,
        atMost: { figure: "up: from the last pod's end to off ms", most: 5_000, unit: 'ms' },
      },
      { part: 'kubeAlone', figures: /to off/ },
    ],
  },
  {
    name: 'in-place',
    claim: 'A reboot can leave all pods in place.',
    uses: [{ part: 'kubeRestart', checks: /told|stays bound|pods run|the same/ }],
  },
  {
    name: 'cordon',
    claim: 'The node does not stay cordoned, and a cordon that somebody else set is kept.',
    uses: [
      { part: 'kubeUp', checks: /takes new ones/ },
      { part: 'kubeRestart', checks: /the cordon of somebody else/ },
      { part: 'cordon' },
    ],
  },
];
