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

# join_node  a fresh control plane, and a fresh guest as its node, with the agent: standard input and MORE_KUBERNETES as in
# vm-agent.
join_node() {
  local config
  config=$(cat)
  vm stop --purge; "$KUBE/down"
  "$KUBE/up"; "$KUBE/vm-node"
  "$KUBE/vm-agent" "$out"/nodewarden-*.tar.gz <<<"$config"
}
