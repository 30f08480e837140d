# shellcheck shell=bash
# Sourced by the labs whose node is a guest: a control plane here, and there kubelet, containerd and the installed agent.
# Wants LAB_VM, the name of guest and node.
. "$(dirname "${BASH_SOURCE[0]}")/../guest.sh"
KUBE=$LAB/kube
export LAB_NODE_NAME=$LAB_VM LAB_KUBE=$LAB_VM LAB_KUBE_PORT=${LAB_KUBE_PORT:-17443}
out=$(mktemp -d)
# skip_unless_possible NAME  ends here if no guest can be a node, and says why
skip_unless_possible() {
  local missing; missing=$(guest_missing)
  [ -n "$missing" ] || "$KUBE/build" --check || missing="Kubernetes is not in $LAB_CACHE: test/lab/kubelet --build builds it"
  [ -n "$missing" ] || return 0
  skipped=1; echo "skipped $1: $missing"
  finish "$1"; exit
}
trap 'vm stop --purge; "$KUBE/down"; rm -rf "$out"' EXIT
k() { "$KUBE/k" "$@"; }
until_so() { # until_so SECONDS CMD...
  local end=$(( $(date +%s) + $1 )); shift
  until "$@" >/dev/null 2>&1; do [ "$(date +%s)" -lt "$end" ] || { echo "waited in vain: $*"; return 1; }; sleep 0.5; done
}

# release  the tarball of this tree, in $out
release() {
  "$KUBE/build"
  (cd "$ROOT" && npm run --silent build && node scripts/dist.mjs --outdir "$out") >&2
}

# join_node  a fresh control plane, and a fresh guest as its node, with the agent. Standard input: what its configuration
# has besides what reaches the node; MORE_KUBERNETES: further fields of `kubernetes`.
join_node() {
  local config
  config=$(cat)
  vm stop --purge; "$KUBE/down"
  "$KUBE/up"; "$KUBE/vm-node"
  vm push "$out"/nodewarden-*.tar.gz /opt
  vm run -t 900 'set -e; cd /opt && mkdir nodewarden && tar xzf nodewarden-*.tar.gz -C nodewarden --strip-components=1 && rm nodewarden-*.tar.gz
    cd nodewarden && ./install.sh >/dev/null; mkdir -p /etc/systemd/system/nodewarden.service.d
    cat > /etc/nodewarden/config.yaml <<C
apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
mode: kubelet
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
kubernetes: { kubeconfig: /opt/kube/nodewarden.conf, nodeName: '"$LAB_NODE_NAME${MORE_KUBERNETES:+, $MORE_KUBERNETES}"' }
'"$config"'
C
    cd config/kubernetes
    install -D -m 0644 order.conf /etc/systemd/system/nodewarden.service.d/20-standalone-order.conf
    install -D -m 0644 service.conf /etc/systemd/system/nodewarden.service.d/60-kubelet.conf
    install -D -m 0644 scope.conf /etc/systemd/system/cri-containerd-.scope.d/50-nodewarden.conf
    # An emulated processor takes longer than the 10 s of order.conf.
    printf "[Service]\nTimeoutStartSec=180s\n" > /etc/systemd/system/nodewarden.service.d/90-lab.conf
    systemctl daemon-reload
    systemctl restart nodewarden'
}
