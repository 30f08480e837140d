#!/bin/bash
# Real power-offs of a machine: shutdown-guest.sh list, or prepare, or run CHECK. `prepare` stores a guest in which
# nodewarden is installed and armed; each check has a fresh one, restored from that.
# shellcheck disable=SC2016,SC2317 # scripts expand in the guest; checks are called by name
export LAB_VM=shutdown-guest${SHUTDOWN_RUN:-}
. "$(dirname "$0")/guest.sh"
. "$LAB/shutdown-scene.sh"
. "$LAB/vm/common.sh"
STORE=$VM/run/$LAB_VM-store
FIGURE='in the guest: '
# An emulated machine takes its time for the end of a pod, too: each step counts from the one that it waits for, the first
# one from the announcement by logind, or without one from the stop of the agent.
PLAN='web told 0
stuck told 0
stuck killed 3000 stuck told
db told 0 stuck killed
dns told 0 db ends
agent released 0 dns ends'

missing() {
  guest_missing
  command -v journalctl >/dev/null && command -v debugfs >/dev/null || echo 'journalctl or debugfs is not installed'
}
prepare() {
  local out pid; out=$(mktemp -d)
  rm -rf "$STORE"; mkdir -p "$STORE"
  (cd "$ROOT" && npm run --silent build && node scripts/dist.mjs --outdir "$out") >&2
  vm stop --purge; vm start
  vm push "$out"/nodewarden-*.tar.gz "$LAB/shutdown-pod.pl" /opt/lab
  rm -rf "$out"
  vm run -t 200 "$(scene)
    mkdir /opt/nodewarden && tar xzf /opt/lab/nodewarden-*.tar.gz -C /opt/nodewarden --strip-components=1
    cd /opt/nodewarden && ./install.sh && cp /opt/lab/config.yaml /etc/nodewarden/config.yaml
    systemctl start other web stuck db dns && systemctl start nodewarden && sync"
  until_armed
  vm run sync
  # What vm/start gave it, without the state that it came from.
  pid=$(cat "$RUN/pid")
  cp "/proc/$pid/cmdline" "$STORE/cmdline"
  ctl migrate "$RUN/qmp.sock" "exec:cat > $STORE/state"
  vm power wait 10
  mv "$RUN/disk.qcow2" "$STORE/disk.qcow2"
}
# machine ARGS  the machine of vm/start once more
machine() {
  local args=() arg skip=0
  while IFS= read -r -d '' arg; do
    if [ $skip = 1 ]; then skip=0; elif [ "$arg" = -incoming ]; then skip=1; else args+=("$arg"); fi
  done < "$STORE/cmdline"
  rm -f "$RUN"/{qmp,ga}.sock "$RUN/pid"
  # Before all other work: on a crowded machine an emulated one falls behind its own clock.
  nice -n -19 "${args[@]}" "$@"
  { echo -19 > "/proc/$(cat "$RUN/pid")/autogroup"; } 2>/dev/null || true
}
fresh() {
  rm -rf "$RUN"; mkdir -p "$RUN"
  qemu-img create -q -f qcow2 -b "$STORE/disk.qcow2" -F qcow2 "$RUN/disk.qcow2"
  truncate -s 512M "$RUN/mail.img"
  machine -incoming "exec:cat $STORE/state"
  ctl incoming "$RUN/qmp.sock"
  vm run -t 20 "date -u -s @$(date +%s.%N) >/dev/null"
  # The emulator has to translate all code anew: this is most of what a shutdown runs.
  vm run -t 60 'systemctl start idle; nodewarden status; systemctl stop idle; sync' >/dev/null
}
# boot_again  the same disk, cold
boot_again() {
  rm -rf "$RUN/journal"
  machine
  ctl ready "$RUN/ga.sock" 400
  vm run -t 120 'systemctl is-system-running --wait' >/dev/null || vm run 'systemctl --failed --no-legend'
}
status() { vm run -t 30 'nodewarden status -o json' | node -p "const { shutdown } = JSON.parse(fs.readFileSync(0)); $1"; }
until_armed() {
  local i
  for ((i = 0; i < 30; i++)); do [ "$(status shutdown.lock.kind 2>/dev/null)" != armed ] || return 0; sleep 1; done
  fail "not armed: $(status 'JSON.stringify(shutdown.lock)')"
}
history_is() {
  local said; said=$(vm run -t 60 'nodewarden history --shutdowns -o json')
  [ "$(node -p "const { shutdowns, boots } = JSON.parse(fs.readFileSync(0)); $1" <<<"$said")" = true ] || fail "not so in the history: $1: $said"
}
# asks COMMAND  for the shutdown, a second later: who carries the answer out of the guest may be stopped by it
asks() { vm run -t 30 "systemd-run -q --on-active=1s --timer-property=AccuracySec=10ms $1"; }
# waits PID  "THREAD NS" of each thread of the emulator: how long it wanted to run and could not, since it began
waits() { awk '{ sub(/.*task\//, "", FILENAME); print FILENAME, $2 }' "/proc/$1"/task/*/schedstat 2>/dev/null || true; }
# until_off  sets waited_ms: how long others on this machine kept the slowest thread waiting, for which the guest is not
# to blame
until_off() {
  local pid i ms
  pid=$(cat "$RUN/pid")
  waits "$pid" > "$RUN/waits"
  for ((i = 0; i < 600; i++)); do
    kill -0 "$pid" 2>/dev/null || break
    ms=$(waits "$pid" | awk 'NR == FNR { before[$1] = $2; next } $2 - before[$1] > most { most = $2 - before[$1] } END { printf "%.0f", most / 1e6 }' "$RUN/waits" -)
    waited_ms=$((ms > waited_ms ? ms : waited_ms))
    sleep 0.1
  done
  vm power wait 1
  figure 'wait for a CPU ms' "$waited_ms"
}
# goes_down CONSOLE  until it is off; the plan held, and the console says how it ended. A second in the containers is two
# here: systemd and the agent compute many times slower, and past logind they ask each other more
goes_down() {
  until_off
  vm journal -b -o short-unix | timeline > "$RUN/timeline"
  plan_holds "$RUN/timeline" 2000 1000
  grep -q "reboot: $1" "$RUN/console.log" || fail "the console does not say: $1"
}
# ---- checks: the comment behind the name is what it shows

check_poweroff() { # systemctl poweroff: all phases in order and in time, seen on the console
  fresh; asks 'systemctl poweroff'; goes_down 'Power down'
  grep -q 'nodewarden: shutdown phase 2: stopping 1 pod' "$RUN/console.log" || fail "nothing on the console: $(tail -n 30 "$RUN/console.log")"
}
check_reboot() { # systemctl reboot: all phases in order and in time
  fresh; asks 'systemctl reboot'; goes_down 'Restarting system'
}
check_shutdown_now() { # shutdown -h now: all phases in order and in time
  fresh; asks 'shutdown -h now'; goes_down 'Power down'
}
check_button() { # the power button: all phases in order and in time
  fresh; vm power button; goes_down 'Power down'
}
check_target() { # systemctl start poweroff.target, bypassing logind: all phases in order and in time
  fresh; asks 'systemctl start --no-block poweroff.target'; goes_down 'Power down'
}
check_cad() { # ctrl-alt-del, bypassing logind: all phases in order and in time
  fresh; vm power cad; goes_down 'Restarting system'
}
check_cancelled() { # shutdown +1, then -c: nothing stops
  local units='for unit in web stuck db dns other; do systemctl show -P MainPID $unit; done' before i
  fresh; before=$(vm run "$units")
  vm run 'shutdown +1' 2>&1
  for ((i = 0; i < 15; i++)); do [ "$(status 'shutdown.scheduled?.type')" != poweroff ] || break; sleep 1; done
  [ "$(status 'shutdown.scheduled?.type')" = poweroff ] || fail "$(status 'JSON.stringify(shutdown)')"
  vm run 'shutdown -c' 2>&1; sleep 2
  [ "$(vm run "$units")" = "$before" ] || fail 'a unit was stopped'
  [ "$(status shutdown.lock.kind)" = armed ] || fail "$(status 'JSON.stringify(shutdown.lock)')"
  ! vm journal -b -o cat -t lab-pod | grep ' told ' | grep -v '^idle ' || fail 'a pod was told'
}
check_reset() { # a reset of the machine: the next boot reports that the last one ended without a trace
  fresh; vm power reset; vm power wait 20; boot_again
  history_is 'shutdowns.length === 0 && boots.length === 1 && boots[0].end === "ungraceful"'
}

names() { sed -n 's/^check_\([a-z_0-9]*\)() .* # \(.*\)$/\1 \2/p; s/^check_\([a-z_0-9]*\)() { # \(.*\)$/\1 \2/p' "$0"; }
run_check() {
  # shellcheck disable=SC2154 # status is assigned in the trap
  trap 'status=$?
    if [ $status != 0 ]; then
      [ ! -s "$RUN/timeline" ] || { echo "-- the timeline"; cut -c 1-200 "$RUN/timeline"; }
      echo "-- the console"; tail -n 15 "$RUN/console.log" | cut -c 1-200
      echo "-- the journal"; vm journal -b -o short-unix 2>&1 | grep -vE " (systemd\[1\]|qemu-ga\[[0-9]+\]): " | tail -n 60 | cut -c 1-260; fi
    vm stop --purge 2>/dev/null; exit $status' EXIT
  "check_$1"
}
case ${1:-} in
  list) names ;;
  missing) missing ;;
  prepare) prepare ;;
  end) vm stop --purge; rm -rf "$STORE" ;;
  run) run_check "$2" ;;
  *) die 'usage: shutdown-guest.sh list|missing|prepare|run CHECK|end' ;;
esac
