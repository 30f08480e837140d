#!/bin/bash
# Graceful shutdown in containers with a real systemd and logind: shutdown-container.sh list, or prepare, or run CHECK.
# shellcheck disable=SC2016,SC2317 # scripts expand inside; checks are called by name
# Each check has a container of its own, over the disk of the one that `prepare` made with nodewarden installed.
. "$(dirname "$0")/guest.sh"
. "$LAB/shutdown-scene.sh"
TEMPLATE=shutdown-template
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
  export LAB_VM=$TEMPLATE
  local out; out=$(mktemp -d)
  (cd "$ROOT" && npm run --silent build && node scripts/dist.mjs --outdir "$out") >&2
  ns down; ns up
  local disk; disk=$LAB_CACHE/nspawn/$TEMPLATE/disk/root
  mkdir -p "$disk/opt/lab" "$disk/opt/nodewarden"
  tar xzf "$out"/nodewarden-*.tar.gz -C "$disk/opt/nodewarden" --strip-components=1
  cp "$LAB/shutdown-pod.pl" "$disk/opt/lab"
  rm -rf "$out"
  ns sh "$(scene)
    mkdir -p /etc/systemd/system/nodewarden.service.d
    cd /opt/nodewarden && ./install.sh && cp /opt/lab/config.yaml /etc/nodewarden/config.yaml && rm -r /opt/nodewarden
    # systemd 252 gives it a /proc of its own for this, without the boot id that nspawn laid over the one of the host.
    printf '[Service]\nProtectKernelTunables=no\n' > /etc/systemd/system/nodewarden.service.d/lab.conf
    systemctl poweroff" >&2
  ns wait 30
  rm -rf "$(ns upper)"/var/log/journal/*
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
lock_is() { [ "$(status shutdown.lock.kind)" = "$1" ]; }
inhibitors() { ns sh 'systemd-inhibit --list --no-legend' | grep -c ' delay *$\| delay ' || true; }
holders() { ns sh "busctl -j call $MANAGER ListInhibitors" | node -p 'JSON.parse(fs.readFileSync(0)).data[0].filter(([what, who, , mode]) => what === "shutdown" && who === "nodewarden" && mode === "delay").length'; }
has_holders() { [ "$(holders)" = "$1" ]; }
granted_ms() { echo $(($(ns sh "busctl get-property $MANAGER InhibitDelayMaxUSec" | cut -d' ' -f2) / 1000)); }
armed() { until_true 15 "armed: $(status 'JSON.stringify(shutdown.lock)')" lock_is armed; }
is_proven() { # the lock is really there, once, and logind really grants what is asked
  has_holders 1 || fail "locks of nodewarden at logind: $(holders)"
  [ "$(granted_ms)" -ge "$ASKED_MS" ] || fail "logind grants $(granted_ms) ms"
}
pids() { ns sh 'for unit in web stuck db dns other idle; do echo "$unit $(systemctl show -P MainPID $unit)"; done'; }
nobody_told() { ! ns journal -b -o cat -t lab-pod | grep ' told ' || fail 'a pod was told to stop'; }
up_and_armed() { container_up; armed; }
# go COMMAND [WHEN-COMMAND]  asks for the shutdown, marked in the journal; the other command runs inside beside it
go() {
  if [ -n "${2:-}" ]; then ns sh "$2" >&2 & fi
  ns sh "logger -t lab go; $1" || true
}
gone() { # until it is off; TIMELINE is what happened
  ns wait "${1:-30}"
  read_timeline
}
read_timeline() { TIMELINE=$LAB_CACHE/nspawn/$LAB_VM/timeline; ns journal -b -o short-unix | timeline > "$TIMELINE"; }
when_told() { echo "until [ -e /run/lab-$1-told ]; do sleep 0.02; done"; }
declare -a FIRST=('' web db dns)

# ---- checks: the comment behind the name is what it shows

check_off() { # without phases there is no lock, no drop-in and no finding
  container_up
  ns sh 'printf "apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n" > /etc/nodewarden/config.yaml
    rm -f /run/systemd/logind.conf.d/*; systemctl restart nodewarden'
  sleep 1
  [ "$(status shutdown.lock.kind)" = off ] || fail "$(status 'JSON.stringify(shutdown)')"
  has_holders 0
  [ -z "$(ns sh 'ls /run/systemd/logind.conf.d 2>/dev/null; ls /etc/systemd/logind.conf.d 2>/dev/null')" ] || fail 'there is a drop-in'
  [ "$(ns sh 'nodewarden status -o json' | node -p 'JSON.parse(fs.readFileSync(0)).findings.length')" = 0 ] || fail 'there is a finding'
}
check_armed() { # armed is proven: listed, granted, and the drop-in sorts behind those of others
  container_up
  ns sh 'systemctl stop nodewarden; rm -f /run/systemd/logind.conf.d/*
    mkdir -p /etc/systemd/logind.conf.d /run/systemd/logind.conf.d
    printf "[Login]\nInhibitDelayMaxSec=3\n" > /etc/systemd/logind.conf.d/99-other.conf
    printf "[Login]\nInhibitDelayMaxSec=4\n" > /run/systemd/logind.conf.d/zz-a.conf
    systemctl restart systemd-logind; systemctl start nodewarden'
  armed; is_proven
  [ "$(ns sh 'ls /etc/systemd/logind.conf.d /run/systemd/logind.conf.d | grep conf$ | LC_ALL=C sort | tail -n 1')" = zz-nodewarden.conf ] || fail 'another drop-in sorts last'
  [ "$(granted_ms)" = "$ASKED_MS" ] || fail "granted $(granted_ms) ms, asked for $ASKED_MS"
  [ "$(status shutdown.lock.neededMs)" -ge 8000 ]
  ns journal -b -o cat -u nodewarden | grep -q '"event":"armed"' || fail 'no log line'
}
check_enough() { # where logind grants more already, nothing is written and nothing lowered
  container_up
  ns sh 'systemctl stop nodewarden; rm -f /run/systemd/logind.conf.d/*; mkdir -p /etc/systemd/logind.conf.d
    printf "[Login]\nInhibitDelayMaxSec=60\n" > /etc/systemd/logind.conf.d/50-long.conf; systemctl restart systemd-logind; systemctl start nodewarden'
  armed; is_proven
  [ "$(granted_ms)" = 60000 ] || fail "granted $(granted_ms) ms"
  [ -z "$(ns sh 'ls /run/systemd/logind.conf.d 2>/dev/null')" ] || fail 'there is a drop-in'
}
check_beaten() { # a drop-in that wins is named with its path
  container_up
  ns sh 'systemctl stop nodewarden; rm -f /run/systemd/logind.conf.d/*; mkdir -p /etc/systemd/logind.conf.d
    for name in zz-nodewarden zzz-last; do printf "[Login]\nInhibitDelayMaxSec=3\n" > /etc/systemd/logind.conf.d/$name.conf; done
    systemctl restart systemd-logind; systemctl start nodewarden'
  is_settled() { lock_is armed || [[ "$(status shutdown.lock.why)" == */etc/systemd/logind.conf.d/* ]]; }
  until_true 20 'armed all the same, or the path is named' is_settled
  if lock_is armed; then is_proven; echo 'armed under another name'; else status shutdown.lock.why; fi
  # Gone, it arms by itself.
  ns sh 'rm /etc/systemd/logind.conf.d/zz*; systemctl kill -s HUP systemd-logind'
  until_true 70 'armed once nothing stands in the way' lock_is armed
  is_proven
}
check_killed() { # killed outside of a shutdown the agent leaves no lock, and has one again after its restart
  up_and_armed
  local before; before=$(pids)
  # In one go: systemd starts it again a second later.
  ns sh "systemctl kill --kill-whom=main -s KILL nodewarden; t0=\$(date +%s%3N)
    while systemd-inhibit --list --no-legend | grep -q nodewarden; do
      [ \$((\$(date +%s%3N) - t0)) -lt 900 ] || exit 1; sleep 0.01; done
    echo figure lock gone after SIGKILL ms \$((\$(date +%s%3N) - t0))" || fail 'the lock outlives the agent'
  armed; until_true 10 'one lock' has_holders 1; is_proven; nobody_told
  [ "$(pids)" = "$before" ] || fail "$before, now $(pids)"
}
check_logind_restart() { # logind restarted or killed outside of a shutdown: armed
  local how
  up_and_armed
  for how in 'restart systemd-logind' 'kill -s KILL systemd-logind' 'kill -s HUP systemd-logind'; do
    ns sh "systemctl $how"; sleep 1.5
    armed; until_true 10 "one lock after $how" has_holders 1; is_proven
  done
  nobody_told
}
check_dbus_restart() { # dbus restarted outside of a shutdown: armed again
  up_and_armed
  ns sh 'systemctl restart dbus' || true
  sleep 2
  until_true 40 'armed again after dbus was restarted' lock_is armed
  until_true 10 'one lock' has_holders 1; is_proven; nobody_told
}
check_scheduled() { # a scheduled shutdown is shown, and stops nothing; cancelled it is forgotten
  up_and_armed
  local before; before=$(pids)
  ns sh 'shutdown --no-wall -h +1' 2>/dev/null
  is_shown() { [ "$(status 'shutdown.scheduled?.type')" = poweroff ]; }
  until_true 15 'the schedule is in the status' is_shown
  [ "$(status 'Math.abs(shutdown.scheduled.atWallMs - Date.now() - 50000) < 20000')" = true ] || fail "$(status 'JSON.stringify(shutdown.scheduled)')"
  [ "$(status 'shutdown.scheduled.phases.length')" = 3 ]
  ns sh 'shutdown -c' 2>/dev/null
  is_forgotten() { [ "$(status shutdown.scheduled)" = null ]; }
  until_true 15 'the schedule is forgotten' is_forgotten
  lock_is armed; is_proven; nobody_told
  [ "$(pids)" = "$before" ] || fail "$before, now $(pids)"
}
check_foreign_signal() { # a PrepareForShutdown that is not logind's changes nothing
  up_and_armed
  ns sh 'for i in 1 2 3; do busctl emit /org/freedesktop/login1 org.freedesktop.login1.Manager PrepareForShutdown b true
    dbus-send --system --type=signal /org/freedesktop/login1 org.freedesktop.login1.Manager.PrepareForShutdown boolean:true; sleep 0.3; done'
  sleep 1
  nobody_told; lock_is armed || fail 'no longer armed'; [ "$(status shutdown.running)" = null ]
  ns sh 'busctl emit /org/freedesktop/login1 org.freedesktop.login1.Manager PrepareForShutdown b false'; sleep 0.5
  lock_is armed || fail 'no longer armed'; is_proven
  ! ns journal -b -o cat -u nodewarden | grep -E '"event":"(shutdown|phase|cancelled)"' || fail 'it believed it'
}
check_stays_up() { # stop, start, restart, SIGTERM, reload and daemon-reexec while the machine stays up stop no pod
  up_and_armed
  local before; before=$(pids)
  ns sh 'systemctl stop nodewarden'; has_holders 0 || fail 'the lock outlives a stop'
  ns sh 'systemctl start nodewarden'; armed
  ns sh 'systemctl restart nodewarden'; armed
  ns sh 'systemctl kill --kill-whom=main -s TERM nodewarden'; sleep 1.5; armed
  ns sh 'systemctl daemon-reexec; systemctl daemon-reload'; sleep 0.5; armed
  ns sh 'systemctl reload nodewarden'; sleep 0.5; armed
  until_true 10 'one lock' has_holders 1; is_proven; nobody_told
  [ "$(pids)" = "$before" ] || fail "$before, now $(pids)"
}

check_poweroff() { # poweroff: all phases in order and in time, and the next boot reports them
  up_and_armed
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 100
  local event
  for event in shutdown phase released; do [ -n "$(at "$TIMELINE" agent $event)" ] || fail "no log line $event"; done
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].end.kind === "released"'
  history_is 'shutdowns[0].phases.every(({ over, wantedMs }) => over !== null && wantedMs > 0)'
  history_is 'JSON.stringify(shutdowns[0].phases.map(({ pods }) => pods.map(({ pod, end }) => `${pod} ${end.kind}`).sort())) === JSON.stringify([["default/stuck ended", "default/web ended"], ["default/db ended"], ["default/dns ended"]])'
  history_is 'shutdowns[0].phases[0].pods.find(({ pod }) => pod === "default/stuck").end.via !== "stop-unit"'
  history_is 'Math.abs(shutdowns[0].phases[0].over.tookMs - 3000) < 1000'
  history_is 'boots.length === 1 && boots[0].end === "graceful"'
}
check_second_tier() { # `systemctl start poweroff.target`, past logind: all phases in order all the same
  up_and_armed
  go 'systemctl start --no-block poweroff.target'; gone
  plan_holds "$TIMELINE" 1000 1000
}
check_started_again() { # a pod that is started in the middle is stopped again
  up_and_armed
  go 'systemctl poweroff' "$(when_told db); systemctl start web"; gone
  [ "$(awk '$2 == "web" && $3 == "runs"' "$TIMELINE" | grep -c .)" = 1 ] || fail 'it was not started again: this proves nothing'
  [ "$(awk '$2 == "web" && $3 == "told"' "$TIMELINE" | grep -c .)" = 2 ] || fail 'it was not stopped again'
  [ "$(awk '$2 == "web" && $3 == "told" { at = $1 } END { print at }' "$TIMELINE")" -lt "$(at "$TIMELINE" agent released)" ] || fail 'stopped by systemd only'
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
}
check_cancel_ignored() { # `shutdown -c` in the delay, which 252 ignores: the phases go on, recorded as not honoured
  up_and_armed
  go 'systemctl poweroff' "$(when_told web); shutdown -c"; gone
  plan_holds "$TIMELINE" 1000 100
}
check_frozen() { # an agent that hangs in a phase delays the machine by what it was granted, and no more
  up_and_armed
  go 'systemctl poweroff' "$(when_told web); systemctl kill --kill-whom=all -s STOP nodewarden"; gone 60
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
}
# SIGKILL in phase $1: the lock is gone with the agent, systemd goes on, and the record says where it ended
killed_in_phase() {
  up_and_armed
  go 'systemctl poweroff' "$(when_told "${FIRST[$1]}"); systemctl kill --kill-whom=main -s KILL nodewarden"; gone
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
  local down killed
  killed=$(at "$TIMELINE" nodewarden killed); down=$(at "$TIMELINE" machine down)
  [ -n "$killed" ] || fail 'it was not killed: this proves nothing'
  [ $((down - killed)) -le 1000 ] || fail "the machine waited $((down - killed)) ms for a dead agent"
  ns up --again
  history_is "shutdowns.length === 1 && shutdowns[0].end.kind === 'cut' && shutdowns[0].end.phase === $1"
}
check_killed_in_1() { killed_in_phase 1; } # SIGKILL of the agent in phase 1: the machine goes down, the record says what was cut
check_killed_in_2() { killed_in_phase 2; } # SIGKILL of the agent in phase 2: the machine goes down, the record says what was cut
check_killed_in_3() { killed_in_phase 3; } # SIGKILL of the agent in phase 3: the machine goes down, the record says what was cut

is_active() { [ "$(ns sh 'systemctl is-active web stuck db dns other | sort -u')" = active ]; }
# After a logind that forgot it: everything that was stopped runs again, and nothing else was touched.
is_undone() { # is_undone BEFORE PHASE
  until_true 25 'all units are active again' is_active
  [ "$(ns sh 'systemctl is-active idle')" = inactive ] || fail 'a unit that did not run before was started'
  armed; until_true 10 'one lock' has_holders 1; is_proven
  read_timeline; nobody_told_twice "$TIMELINE"
  [ -n "$(at "$TIMELINE" agent cancelled)" ] || fail 'no log line cancelled'
  local unit pid now
  while read -r unit pid; do
    now=$(ns sh "systemctl show -P MainPID $unit")
    if grep -q "^[0-9]* $unit told" "$TIMELINE"; then [ "$now" != "$pid" ] || fail "$unit was told and is the same process"
    else [ "$now" = "$pid" ] || fail "$unit was not told and is another process"; fi
  done <<<"$1"
  [ -z "$(at "$TIMELINE" other told)" ] || fail 'a unit that is no pod was told'
  history_is "shutdowns.length === 1 && shutdowns[0].end.kind === 'cancelled' && shutdowns[0].cancelled.isHonoured && shutdowns[0].undone !== null"
  history_is 'shutdowns[0].undone.notUndone.length === 0'
}
# logind ends in phase $1 by the command $2: it has forgotten the shutdown, which is a cancel.
logind_in_phase() {
  local before
  up_and_armed; before=$(pids)
  go 'systemctl poweroff' "$(when_told "${FIRST[$1]}"); $2"
  sleep 2
  is_undone "$before" "$1"
  # And the next one works.
  go 'systemctl poweroff'; gone
  nobody_told_twice "$TIMELINE"; plan_holds "$TIMELINE" 1000 100
}
check_logind_killed() { logind_in_phase 1 'systemctl kill -s KILL systemd-logind'; } # logind killed in the delay: a cancel; the units run again, and only those; the next shutdown works
check_logind_in_1() { logind_in_phase 1 'systemctl restart systemd-logind'; } # logind restarted in phase 1: a cancel; the units run again, and only those; the next shutdown works
check_logind_in_2() { logind_in_phase 2 'systemctl restart systemd-logind'; } # logind restarted in phase 2: a cancel; the units run again, and only those; the next shutdown works
check_logind_in_3() { logind_in_phase 3 'systemctl restart systemd-logind'; } # logind restarted in phase 3: a cancel; the units run again, and only those; the next shutdown works
# dbus restarted in phase $1: what logind makes of it is its own; down in time, or up with the cancel recorded
dbus_in_phase() {
  local before
  up_and_armed; before=$(pids)
  go 'systemctl poweroff' "$(when_told "${FIRST[$1]}"); systemctl restart dbus"
  if ns wait 14 2>/dev/null; then
    read_timeline; nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
    ns up --again
    history_is 'shutdowns.length === 1'
  else
    echo 'the machine stayed up'
    is_undone "$before" "$1"
  fi
}
check_dbus_in_1() { dbus_in_phase 1; } # dbus restarted in phase 1: the machine goes down, or the cancel is recorded and undone
check_dbus_in_2() { dbus_in_phase 2; } # dbus restarted in phase 2: the machine goes down, or the cancel is recorded and undone
check_dbus_in_3() { dbus_in_phase 3; } # dbus restarted in phase 3: the machine goes down, or the cancel is recorded and undone
check_power_cut() { # a power cut is an end without a trace, said after the next boot with what ran
  up_and_armed; sleep 1.5
  ns cut; ns up --again
  history_is 'shutdowns.length === 0 && boots.length === 1 && boots[0].end === "ungraceful"'
}

names() { sed -n 's/^check_\([a-z_0-9]*\)() .* # \(.*\)$/\1 \2/p; s/^check_\([a-z_0-9]*\)() { # \(.*\)$/\1 \2/p' "$0"; }
run_check() {
  export LAB_VM=shutdown-${1//_/-}-$$ # a host name
  # shellcheck disable=SC2154 # status is assigned in the trap
  trap 'status=$?
    if [ $status != 0 ]; then
      [ ! -s "${TIMELINE:-}" ] || { echo "-- the timeline"; cut -c 1-200 "$TIMELINE"; }
      echo "-- the journal"; ns journal -b -o short-unix | grep -vE "systemd\[1\]: (Mounted|Unmounted|run-|Starting|Reached|Set up|Finished)" | tail -n 60 | cut -c 1-260; fi
    ns down 2>/dev/null; exit $status' EXIT
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
