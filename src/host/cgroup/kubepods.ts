export type CgroupDriver = 'cgroupfs' | 'systemd';

/** The cgroup of all pods, below the mount of each controller (beside-a-kubelet.md D6). */
export function kubepodsPath(driver: CgroupDriver, cgroupRoot: string): string {
  const parts = [...cgroupRoot.split('/').filter((part) => part !== ''), 'kubepods'];
  return driver === 'cgroupfs' ? `/${parts.join('/')}` : slicePath(parts);
}

/** Every prefix of a slice's name is a directory: `a-b.slice` is in `a.slice`. Within a part of the name, `-` becomes `_`. */
function slicePath(parts: readonly string[]): string {
  const escaped = parts.map((part) => part.replaceAll('-', '_'));
  return `/${escaped.map((_, i) => `${escaped.slice(0, i + 1).join('-')}.slice`).join('/')}`;
}
