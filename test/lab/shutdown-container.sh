#!/bin/bash
# Graceful shutdown in containers with a real systemd and logind: shutdown-container.sh list, or prepare, or run CHECK.
# shellcheck disable=SC2016,SC2317 # scripts expand inside; checks are called by name
# Each check has a container of its own, over the disk of the one that `prepare` made with nodewarden installed.
. "$(dirname "$0")/guest.sh"
. "$LAB/shutdown-scene.sh"
TEMPLATE=shutdown-template${SHUTDOWN_RUN:-}
MANAGER='org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager'

ns() { "$LAB/logind/nspawn" "$@"; }
container_missing() { # prints why no container can run here
  [ "$(id -u)" = 0 ] || { echo 'only root can make a container'; return; }
  local c
  for c in mmdebstrap mkfs.ext4 journalctl nsenter pgrep; do
    command -v "$c" >/dev/null || { echo "$c is not installed"; return; }
  done
  unshare --mount true 2>/dev/null || { echo 'mount namespaces are not allowed here'; return; }
}
prepare() {
  # The later one would run in place of both.
  local twice; twice=$(names | cut -d' ' -f1 | sort | uniq -d)
  [ -z "$twice" ] || die "two checks are named $twice"
  export LAB_VM=$TEMPLATE
  local out; out=$(mktemp -d)
  (cd "$ROOT" && npm run --silent build && node scripts/dist.mjs --outdir "$out") >&2
  ns down; ns up
  install_here "$out"/nodewarden-*.tar.gz
  rm -rf "$out"
  ns sh 'systemctl poweroff' >&2
  ns wait 30
  rm -rf "$(ns upper)"/var/log/journal/*
}
install_here() { # install_here TARBALL  of the release, and the workloads with it
  local disk; disk=$LAB_CACHE/nspawn/$LAB_VM/disk/root
  mkdir -p "$disk/opt/lab" "$disk/opt/nodewarden"
  tar xzf "$1" -C "$disk/opt/nodewarden" --strip-components=1
  cp "$1" "$disk/opt/lab/release.tar.gz"
  cp "$LAB/shutdown-pod.pl" "$disk/opt/lab"
  ns sh "$(scene)
    mkdir -p /etc/systemd/system/nodewarden.service.d
    cd /opt/nodewarden && ./install.sh && cp /opt/lab/config.yaml /etc/nodewarden/config.yaml && rm -r /opt/nodewarden
    # systemd 252 gives it a /proc of its own for this, without the boot id that nspawn laid over the one of the host.
    printf '[Service]\nProtectKernelTunables=no\n' > /etc/systemd/system/nodewarden.service.d/lab.conf" >&2
}
container_up() { ns up --on "$LAB_CACHE/nspawn/$TEMPLATE/disk/upper"; }

status() { ns sh 'nodewarden status -o json' | node -p "const { shutdown } = JSON.parse(fs.readFileSync(0)); $1"; }
history_is() { # history_is EXPRESSION  of `shutdowns` and `boots`, true or not
  local is; is=$(ns sh 'nodewarden history --shutdowns -o json' | node -p "const { shutdowns, boots } = JSON.parse(fs.readFileSync(0)); $1")
  [ "$is" = true ] || { ns sh 'nodewarden history --shutdowns -o json'; fail "not so in the history: $1"; }
}
# until_true SECONDS WHAT COMMAND...
until_true() {
  local i
  for ((i = 0; i < $1 * 10; i++)); do "${@:3}" >/dev/null 2>&1 && return; sleep 0.1; done
  "${@:3}" || true
  fail "after $1 s not yet: $2"
}
lock_is() { local kind; kind=$(status shutdown.lock.kind); echo "the lock is $kind"; [ "$kind" = "$1" ]; }
holders() { ns sh "busctl -j call $MANAGER ListInhibitors" | node -p 'JSON.parse(fs.readFileSync(0)).data[0].filter(([what, who, , mode]) => what === "shutdown" && who === "nodewarden" && mode === "delay").length'; }
has_holders() { [ "$(holders)" = "$1" ]; }
granted_ms() { echo $(($(ns sh "busctl get-property $MANAGER InhibitDelayMaxUSec" | cut -d' ' -f2) / 1000)); }
armed() { until_true 15 'armed' lock_is armed; }
is_proven() { # the lock is really there, once, and logind really grants what is asked
  has_holders 1 || fail "locks of nodewarden at logind: $(holders)"
  [ "$(granted_ms)" -ge "$ASKED_MS" ] || fail "logind grants $(granted_ms) ms"
}
pids() { ns sh 'for unit in web stuck db dns other idle; do echo "$unit $(systemctl show -P MainPID $unit)"; done'; }
nobody_told() { ! ns journal -b -o cat -t lab-pod | grep ' told ' || fail 'a pod was told to stop'; }
up_and_armed() { container_up; armed; }
# up_with COMMAND  the same after this has changed the configuration
up_with() {
  container_up
  ns sh "systemctl stop nodewarden; rm -f /run/systemd/logind.conf.d/*; $1
    systemctl daemon-reload; systemctl restart systemd-logind; systemctl start nodewarden"
  armed
}
# config LINE...  as a command that sets the configuration to these lines
config() { printf 'printf "%%s\\n" "apiVersion: nodewarden.dev/v1alpha1" "kind: NodewardenConfiguration"'; printf " '%s'" "$@"; printf ' > /etc/nodewarden/config.yaml\n'; }
PHASES='shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 3}, {priority: 1000, shutdownGracePeriodSeconds: 3}, {priority: 2000000000, shutdownGracePeriodSeconds: 2}]'
# Without `stuck` the first phase ends early; db then needs 3.5 s, where its own phase has 3.
QUICK_WEB='sed -i "s/shutdown-pod.pl db .*/shutdown-pod.pl db 3.5/" /etc/systemd/system/db.service
  systemctl kill -s KILL stuck; systemctl disable -q stuck; systemctl daemon-reload; systemctl restart db'
# lateness  a line for each time that a sleep of 10 ms took more than 30 ms: its ms beyond the 10
lateness() {
  exec perl -MTime::HiRes=time,sleep -e '$| = 1; for (;;) { my $began = time; sleep 0.01; my $ms = 1e3 * (time - $began) - 10; printf "%d\n", $ms if $ms > 20 }'
}
# go COMMAND [WHEN-COMMAND]  asks for the shutdown, marked in the journal; the other command runs inside beside it
go() {
  : > "$late"
  if [ -n "${2:-}" ]; then ns sh "$2" >&2 & fi
  ns sh "logger -t lab go; $1" || true
}
gone() { # until it is off; TIMELINE is what happened
  ns wait "${1:-30}"
  read_timeline
}
read_timeline() {
  waited_ms=$(awk '{ sum += $1 } END { printf "%d", sum }' "$late")
  figure 'wait for a CPU ms' "$waited_ms"
  TIMELINE=$LAB_CACHE/nspawn/$LAB_VM/timeline; ns journal -b -o short-unix | timeline > "$TIMELINE"
}
when_told() { echo "until [ -e /run/lab-$1-told ]; do sleep 0.02; done"; }
declare -a FIRST=('' web db dns)

. "$LAB/shutdown-up.sh"
. "$LAB/shutdown-down.sh"
. "$LAB/shutdown-order.sh"
. "$LAB/shutdown-change.sh"

# The long ones first, so that they do not come last: that of the rounds before all.
names() { sed -n 's/^check_\([a-z_0-9]*\)() {.* # \(.*\)$/\1 \2/p' "$LAB"/shutdown-{order,change,down,up}.sh | awk '$1 == "rounds" { print; next } { rest[++n] = $0 } END { for (i = 1; i <= n; i++) print rest[i] }'; }
run_check() {
  export LAB_VM=shutdown-${1//_/-}-$$ # a host name
  late=$(mktemp)
  lateness >> "$late" & late_pid=$!
  # shellcheck disable=SC2154 # status is assigned in the trap
  trap 'status=$?
    kill $late_pid
    if [ $status != 0 ]; then
      echo "the machine: load $(cut -d" " -f1-3 /proc/loadavg), $(awk "/^MemAvailable/ { print int(\$2 / 1024) }" /proc/meminfo) MiB available, waits for a CPU $(awk "{ sum += \$1 } END { print sum + 0 }" "$late") ms"
      [ ! -s "${TIMELINE:-}" ] || tail -n 6 "$TIMELINE" | cut -c 1-100
      [ ! -s "${TIMELINE:-}" ] || { echo "-- the timeline"; cut -c 1-200 "$TIMELINE"; }
      echo "-- the journal"; ns journal -b -o short-unix | grep -vE "systemd\[1\]: (Mounted|Unmounted|run-|Starting|Reached|Set up|Finished)" | tail -n 50 | cut -c 1-260; fi
    ns down 2>/dev/null; rm -f "$late"; exit $status' EXIT
  "check_$1"
}
case ${1:-} in
  list) names ;;
  missing) container_missing ;;
  prepare) prepare ;;
  end) LAB_VM=$TEMPLATE ns down ;;
  run) run_check "$2" ;;
  *) die 'usage: shutdown-container.sh list|missing|prepare|run CHECK|end' ;;
esac
