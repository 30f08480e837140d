# shellcheck shell=bash disable=SC2034
# Sourced by the kube scripts. LAB_KUBE names the cluster ("default"), LAB_KUBE_PORT the first of its four ports,
# LAB_NODE_NAME the node.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
K=$LAB_CACHE/kube
RUN=$K/run/${LAB_KUBE:-default}
CG=/nodewarden-lab/kube-${LAB_KUBE:-default}
PORT=${LAB_KUBE_PORT:-16443}
# Several clusters may have a node of this machine at a time.
BRIDGE=nwlab$((PORT % 256)) SUBNET=10.88.$((PORT % 256)).0/24
NODE_NAME=${LAB_NODE_NAME:-lab-node}
export PATH=$K/bin:$K/deb/usr/bin:$K/deb/usr/sbin:$PATH
# LAB_CONTAINERD: a directory with another containerd, ctr and shim (newer-containerd makes one); runc stays ours.
# KUBEBUILDER_ASSETS: a directory with other versions of etcd, kubectl, and the parts of Kubernetes. With all of these, none is built.
if [ -n "${LAB_CONTAINERD:-}" ]; then PATH=$LAB_CONTAINERD:$PATH; fi
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then PATH=$KUBEBUILDER_ASSETS:$PATH; fi

# Of the authority of the cluster, in $RUN.
ssl() { openssl "$@" 2>/dev/null; }
cert() { # cert FILE SUBJECT [EXTENSION]
  ssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "pki/$1.key" -out "pki/$1.csr"
  ssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 30 -out "pki/$1.crt" ${3:+-extfile <(echo "$3")}
}

kc() { kubectl --kubeconfig "$RUN/admin.conf" "$@"; }
hierarchies() { local h; for h in /sys/fs/cgroup/*/; do [ ! -e "${h}cgroup.procs" ] || echo "${h%/}"; done; }
# minor_of PROGRAM  20 for v1.20.2
minor_of() { "$1" --version | sed -n 's/.*v1\.\([0-9]*\)\..*/\1/p'; }
# wait_for WHAT SECONDS CMD...
wait_for() {
  local what=$1 seconds=$2 i; shift 2
  for ((i = 0; i < seconds * 5; i++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
  die "$what is not ready after $seconds s; see $RUN/log"
}
