# shellcheck shell=bash
# Sourced by the labs that need a whole machine: a guest of their own with the release in /opt, counts, and an end that
# leaves nothing. GUEST_CGROUP chooses the hierarchy (2 or 1), GUEST_MEM its MiB.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$LAB/../.." && pwd)
passed=0 failed=0 skipped=0

vm() { "$LAB/vm/$1" "${@:2}"; }

# guest_missing  prints why no guest can run here; nothing when one can
guest_missing() {
  [ "$(id -u)" = 0 ] || { echo 'only root can build the guest'; return; }
  local c
  for c in qemu-system-x86_64 qemu-img mmdebstrap mkfs.ext4; do
    command -v "$c" >/dev/null || { echo "$c is not installed"; return; }
  done
}

# guest_up NAME  a fresh guest with the release tarball of this tree unpacked in /opt/nodewarden
guest_up() {
  export LAB_VM=$1-$$
  local out
  out=$(mktemp -d)
  trap 'vm stop --purge; rm -rf "'"$out"'"' EXIT
  (cd "$ROOT" && npm run --silent build && node scripts/dist.mjs --outdir "$out") >&2
  vm start --cgroup "${GUEST_CGROUP:-2}" --mem "${GUEST_MEM:-1024}"
  vm push "$out"/nodewarden-*.tar.gz /opt
  vm run 'cd /opt && tar xzf nodewarden-*.tar.gz && rm nodewarden-*.tar.gz && mv nodewarden-* nodewarden'
  rm -rf "$out"
}
# boot_disk ARGUMENTS  the same disk, once the guest is off. ARGUMENTS: a file with what guest_arguments printed before.
guest_arguments() { tr '\0' '\n' < "/proc/$(cat "$LAB_CACHE/vm/run/$LAB_VM/pid")/cmdline"; }
boot_disk() {
  vm again "$1"
  node "$LAB/vm/ctl.mjs" ready "$LAB_CACHE/vm/run/$LAB_VM/ga.sock" 180
}

# check NAME COMMAND...  counts whether COMMAND succeeded, and shows what it said if not
check() {
  local name=$1 said
  if said=$("${@:2}" 2>&1); then
    passed=$((passed + 1)); echo "ok      $name"
  else
    failed=$((failed + 1)); echo "FAILED  $name"; printf '%s\n' "$said" | tail -n 40 | sed 's/^/        /'
  fi
}

# in_guest NAME SCRIPT  a check that is a script in the guest, any failing command of which fails it. `fails CMD` in it
# wants CMD to fail (`! CMD` would not end a script under set -e).
in_guest() { check "$1" vm run -t 900 "set -eu; fails() { if \"\$@\"; then return 1; fi; }; set -x; $2"; }

# add_counts LINE  adds "N passed, N failed, N skipped"; a line without counts is a failure
add_counts() {
  if [[ $1 =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped ]]; then
    passed=$((passed + BASH_REMATCH[1])); failed=$((failed + BASH_REMATCH[2])); skipped=$((skipped + BASH_REMATCH[3]))
  else
    failed=$((failed + 1)); echo "FAILED  no counts in the last line: $1"
  fi
}

# finish LAB  the last line, and the exit status
finish() {
  echo "$1: $passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
}
