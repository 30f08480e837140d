const names = (text: string): readonly string[] => text.trim().split(/\s+/);

/**
 * The names that the API knows (Kubernetes 1.35) in the parts of a v1 Pod that are read: any other is misspelt or in the wrong place,
 * and `kubectl apply` refuses it.
 */
export const FIELDS = {
  pod: names('apiVersion kind metadata spec status'),
  metadata:
    names(`annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation
    labels managedFields name namespace ownerReferences resourceVersion selfLink uid`),
  spec: names(`activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
    initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims
    resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount serviceAccountName
    setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints
    volumes workloadRef`),
  container:
    names(`args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir`),
  resources: names('claims limits requests'),
} as const;

/** Those that decide who is evicted, each with its place. */
export const PLACES: ReadonlyMap<string, string> = new Map([
  ['annotations', 'metadata.annotations'],
  ['resources', 'spec.containers[].resources'],
  ...names('containers initContainers overhead priority priorityClassName terminationGracePeriodSeconds').map(
    (name) => [name, `spec.${name}`] as const,
  ),
  ...names('requests limits').map((name) => [name, `resources.${name}`] as const),
  ...names('memory ephemeral-storage').map((name) => [name, `resources.requests.${name}`] as const),
]);

export const RESOURCES = ['cpu', 'memory', 'ephemeral-storage'];
/** Also one that a device plugin or an administrator has defined, which has a domain. */
export const isResource = (name: string): boolean =>
  RESOURCES.includes(name) || name.startsWith('hugepages-') || name.includes('/');
