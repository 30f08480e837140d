import { type ManifestPod, parseManifest } from '../../src/standalone/manifests/manifest.ts';

/** With these annotations besides its binding. */
export function podOf(name: string, annotations: readonly string[]): ManifestPod {
  const text = `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  annotations:
    nodewarden.dev/cgroup: ${name}
${annotations.map((line) => `    nodewarden.dev/${line}\n`).join('')}spec: { containers: [{ name: a }] }
`;
  const { pods, problems } = parseManifest(text, `${name}.yaml`);
  const [pod] = pods;
  if (pod === undefined || problems.length > 0) throw new Error(JSON.stringify(problems));
  return pod;
}
