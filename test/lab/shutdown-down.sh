# shellcheck shell=bash disable=SC2016,SC2034,SC2154,SC2317 # scripts expand inside; checks are called by name; waited_ms: shutdown-scene.sh
# Sourced by shutdown-container.sh: what holds when the machine goes down. The comment behind a check says what it shows.

check_poweroff() { # poweroff: all phases in order and in time, and the next boot reports them
  up_and_armed
  go 'systemctl poweroff' "$(when_told db); systemctl show -P StatusText nodewarden | logger -t lab-status"; gone
  plan_holds "$TIMELINE" 1000 500
  ns journal -b -o cat -t lab-status | grep 'shutdown phase 2: .*default/db' || fail "STATUS= within phase 2: $(ns journal -b -o cat -t lab-status)"
  local event
  for event in shutdown phase released; do [ -n "$(at "$TIMELINE" agent $event)" ] || fail "no log line $event"; done
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].end.kind === "released"'
  history_is 'shutdowns[0].phases.every(({ over, wantedMs }) => over !== null && wantedMs > 0)'
  history_is 'JSON.stringify(shutdowns[0].phases.map(({ pods }) => pods.map(({ pod, end }) => `${pod} ${end.kind}`).sort())) === JSON.stringify([["default/stuck ended", "default/web ended"], ["default/db ended"], ["default/dns ended"]])'
  history_is 'shutdowns[0].phases[0].pods.find(({ pod }) => pod === "default/stuck").end.via !== "stop-unit"'
  history_is 'Math.abs(shutdowns[0].phases[0].over.tookMs - 3000) < 1000 + '"$waited_ms"
  history_is 'boots.length === 1 && boots[0].end === "graceful"'
}
# The system of Debian 13, with nodewarden installed and the workloads running; `hand` is a pod that no boot starts.
newer_up() {
  "$LAB/logind/build-trixie" || { echo 'Debian 13 cannot be unpacked here'; exit 77; }
  export LAB_ROOT=$LAB_CACHE/trixie/root
  ns up
  install_here "$LAB_CACHE/nspawn/$TEMPLATE/disk/upper/opt/lab/release.tar.gz"
  ns sh "$ORDER order_unit hand 0.1; order_pod hand 0; systemctl daemon-reload; systemctl start nodewarden other web stuck db dns hand"
  armed
}
check_soft_reboot() { # systemd 257: `systemctl soft-reboot` has its phases and is not a cancel: what it stopped stays stopped; the power-off after it has its phases too
  newer_up
  local before; before=$(ns sh 'cat /proc/sys/kernel/random/boot_id')
  go 'systemctl soft-reboot'
  is_back() { [ "$(ns sh 'busctl get-property org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager SoftRebootsCount SystemState' | paste -sd' ')" = 'u 1 s "running"' ]; }
  until_true 40 'back' is_back
  armed; sleep 3; is_proven
  [ "$(ns sh 'cat /proc/sys/kernel/random/boot_id')" = "$before" ] || fail 'that was a boot: this proves nothing'
  read_timeline; in_time "$TIMELINE" 1000; nobody_told_twice "$TIMELINE"
  [ "$(ns sh 'systemctl is-active hand; systemctl is-active web' | paste -sd' ')" = 'inactive active' ] || fail 'a unit was started that no boot starts'
  ! ns journal -b -o cat -u nodewarden | grep -E '"event":"(cancelled|restarted)"' || fail 'it was taken for a cancel'
  history_is 'shutdowns.length === 1 && shutdowns[0].plan.type === "soft-reboot" && shutdowns[0].end.kind === "released" && shutdowns[0].cancelled === null && shutdowns[0].undone === null'
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
}
check_second_tier() { # `systemctl start poweroff.target`, bypassing logind: still all phases in order
  up_and_armed
  go 'systemctl start --no-block poweroff.target'; gone
  plan_holds "$TIMELINE" 1000 1000
}
check_taken_back() { # bypassing logind, with systemd's jobs cancelled during a phase: no further phase; the agent and what it stopped run again, and the next shutdown works
  local before stuck
  # Told by a signal, without a job of systemd, it has the time that it declares.
  up_with 'sed -i "s/spec: {/spec: { terminationGracePeriodSeconds: 3,/" /etc/nodewarden/pods.d/stuck.yaml'
  before=$(pids); stuck=$(ns sh 'systemctl show -P MainPID stuck')
  go 'systemctl start --no-block poweroff.target' "$(when_told web); sleep 0.5; systemctl cancel"
  sleep 2
  is_another() { [ "$(ns sh 'systemctl show -P MainPID stuck')" != "$stuck" ]; }
  until_true 20 'stuck runs again' is_another
  is_undone "$before"
  [ -z "$(at "$TIMELINE" db told)" ] || fail 'db was told'
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
}
check_taken_back_twice() { # bypassing logind, with systemd's jobs cancelled during a phase, and once more while the agent ends: it and what it stopped run again
  local before stuck
  up_with 'sed -i "s/spec: {/spec: { terminationGracePeriodSeconds: 3,/" /etc/nodewarden/pods.d/stuck.yaml'
  before=$(pids); stuck=$(ns sh 'systemctl show -P MainPID stuck')
  go 'systemctl start --no-block poweroff.target' "$(when_told web); sleep 0.5; systemctl cancel
    until systemctl list-jobs | grep -q nodewarden; do sleep 0.02; done; systemctl cancel"
  is_another() { [ "$(ns sh 'systemctl show -P MainPID stuck')" != "$stuck" ]; }
  until_true 20 'stuck runs again' is_another
  is_undone "$before"
}
check_restarted_in_phase() { # `systemctl restart nodewarden` during a phase: still all phases in order and in time
  up_and_armed
  go 'systemctl poweroff' "$(when_told web); systemctl restart --no-block nodewarden"; gone
  plan_holds "$TIMELINE" 1000 1000
}
check_started_again() { # a pod that is started during the shutdown is stopped again
  # So long that it is started within the phases, however slow the machine is.
  up_with "$(config 'shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 3}, {priority: 1000, shutdownGracePeriodSeconds: 30}, {priority: 2000000000, shutdownGracePeriodSeconds: 5}]')
    sed -i 's/shutdown-pod.pl db .*/shutdown-pod.pl db 12/; s/=6s/=60s/' /etc/systemd/system/db.service; systemctl daemon-reload; systemctl restart db; rm -f /run/lab-db-told"
  go 'systemctl poweroff' "$(when_told db); systemctl start web"; gone 60
  # It may be stopped before it says that it runs.
  [ "$(awk '$2 == "web" && $3 == "started"' "$TIMELINE" | grep -c .)" = 1 ] || fail 'it was not started again: this proves nothing'
  [ "$(awk '$2 == "web" && $3 == "stopped"' "$TIMELINE" | grep -c .)" = 2 ] || fail 'it was not stopped again'
  [ "$(awk '$2 == "web" && $3 == "stopped" { at = $1 } END { print at }' "$TIMELINE")" -lt "$(at "$TIMELINE" agent released)" ] || fail 'stopped by systemd only'
  ns up --again
  history_is 'shutdowns[0].startedAgain.length === 1 && shutdowns[0].startedAgain[0].pod === "default/web"'
}
check_cancel_ignored() { # `shutdown -c` during the delay, which systemd 252 ignores: the phases continue, and the cancel is recorded as not honoured
  up_and_armed
  go 'systemctl poweroff' "$(when_told web); sleep 1.5; shutdown -c"; gone
  plan_holds "$TIMELINE" 1000 500
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].end.kind === "released" && shutdowns[0].cancelled?.isHonoured === false'
}
check_schedule_fires() { # a scheduled shutdown: nothing is stopped early, then all phases in order and in time
  up_and_armed
  local in_s=30 at_us # what is asked before that takes seconds on a slow machine
  at_us=$((($(date +%s) + in_s) * 1000000))
  ns sh "busctl -q call $MANAGER ScheduleShutdown st poweroff $at_us"
  is_shown() { [ "$(status 'shutdown.scheduled?.atWallMs')" = $((at_us / 1000)) ]; }
  until_true 15 'the schedule is in the status' is_shown
  nobody_told
  gone 60
  plan_holds "$TIMELINE" 1000 500
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].plan.type === "poweroff"'
}
check_refused() { # systemd refuses the job after the phases: counts as a cancel, all units run again, and the next shutdown works
  local before
  up_and_armed; before=$(pids)
  go 'systemctl poweroff' "$(when_told db); systemctl mask -q --runtime poweroff.target"
  sleep 5.5
  is_undone "$before"
  ns sh 'systemctl unmask -q --runtime poweroff.target'
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
}
has_exited() { [ "$(ns sh 'systemctl show -P ActiveState nodewarden')" = inactive ]; }
# stopped_until COMMAND THEN  the agent is stopped in phase 1, and the first one ends the shutdown in phase 2; the other comes
# before the agent is started again
stopped_until() {
  local before
  up_and_armed; before=$(pids)
  go 'systemctl poweroff' "$(when_told web); systemctl stop --no-block nodewarden; $(when_told db); $1"
  until_true 40 'the agent has exited' has_exited
  # The next run would start them as well.
  until_true 25 'all units are active again without the agent' is_active
  has_exited || fail 'the agent was started again: this proves nothing'
  ns sh "$2; systemctl start nodewarden"
  is_undone "$before"
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
}
check_stopped_cancelled() { stopped_until 'systemctl kill -s KILL systemd-logind' true; } # `systemctl stop nodewarden` in phase 1, then a cancel: the agent starts all units again before it exits, and the next shutdown works
check_stopped_refused() { stopped_until 'systemctl mask -q --runtime poweroff.target' 'systemctl unmask -q --runtime poweroff.target'; } # `systemctl stop nodewarden` in phase 1, and systemd refuses the job after the phases: the agent starts all units again before it exits, and the next shutdown works
check_two_fields() { # the other form of configuration: two phases
  local ASKED_MS=8000 PLAN='web told 0
stuck told 0
db told 0
stuck killed 4000
dns told 4000
agent released 4500'
  up_with "$(config 'shutdownGracePeriod: 6s' 'shutdownGracePeriodCriticalPods: 2s')"
  is_proven
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
}
check_no_carry_over() { # time that a phase does not use is lost, as in the kubelet
  local PLAN='web told 0
db told 1000
db killed 4000
dns told 4000
agent released 4500'
  up_with "$QUICK_WEB"
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
}
check_carry_over() { # shutdownCarryOver: time that a phase does not use goes to the next one
  local PLAN='web told 0
db told 1000
db ends 4500
dns told 4500
agent released 5000'
  up_with "$(config "$PHASES" 'shutdownCarryOver: true'); $QUICK_WEB"
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
  [ -z "$(at "$TIMELINE" db killed)" ] || fail 'db was killed'
}
# 10 s for phases of 6, 6 and 4 s: each gets its part, the last ones what is left. db ends only when it is killed.
SHRUNK='web told 0
stuck told 0
stuck killed 3750
db told 3750
db killed 7500
dns told 7500
agent released 8000'
LONGER=$(config 'shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 6}, {priority: 1000, shutdownGracePeriodSeconds: 6}, {priority: 2000000000, shutdownGracePeriodSeconds: 4}]')
DB_NEVER_ENDS='sed -i "s/shutdown-pod.pl db .*/shutdown-pod.pl db never/" /etc/systemd/system/db.service; systemctl daemon-reload; systemctl restart db'
check_shrunk() { # not armed, with 12 s granted: all phases in order, in proportion, within what is granted
  local ASKED_MS=12000 PLAN=$SHRUNK
  not_armed "sed -i s/=7/=12/ /etc/systemd/logind.conf.d/$LAST; $LONGER; $DB_NEVER_ENDS"
  go 'systemctl poweroff'; gone
  plan_holds "$TIMELINE" 1000 500
  ns up --again
  history_is 'shutdowns[0].plan.grantedMs === 12000 && shutdowns[0].plan.limitMs === 10000 && shutdowns[0].end.kind === "released"'
}
check_second_tier_shrunk() { # bypassing logind, with TimeoutStopSec=15s: all phases in order, in proportion, within 10 s
  local ASKED_MS=15000 PLAN=$SHRUNK
  up_with 'printf "[Service]\nTimeoutStopSec=15s\n" > /etc/systemd/system/nodewarden.service.d/timeout.conf
    '"$LONGER"$'\n'"$DB_NEVER_ENDS"
  go 'systemctl start --no-block poweroff.target'; gone
  plan_holds "$TIMELINE" 1000 1000
  ns up --again
  history_is 'shutdowns[0].plan.tier === "stop" && Math.abs(shutdowns[0].plan.limitMs - 10000) < 500 + '"$waited_ms"' && shutdowns[0].end.kind === "released"'
  history_is 'boots[0].end === "graceful"'
}
check_second_tier_off() { # shutdownSecondTier: false: bypassing logind, the agent exits at once, and systemd stops the pods
  up_with "$(config "$PHASES" 'shutdownSecondTier: false')"
  go 'systemctl start --no-block poweroff.target'; gone
  [ "$(($(at "$TIMELINE" dns told) - $(at "$TIMELINE" web told)))" -lt $((500 + waited_ms)) ] || fail 'they were not told at once'
  [ -z "$(at "$TIMELINE" agent phase)" ] || fail 'a phase ran'
}
check_killed_late() { # bypassing logind, SIGKILL of the agent in phase 2: the machine goes down, and the record says what was cut
  up_and_armed
  go 'systemctl start --no-block poweroff.target' "$(when_told db); systemctl kill --kill-whom=main -s KILL nodewarden"; gone
  # Of the phase that ran systemd tells the rest once more: here it is the agent that signals, and not a job of systemd's.
  [ -z "$(awk '$3 == "told" && $5 > 1 && $2 != "db"' "$TIMELINE")" ] || fail 'told twice'
  waited_no_longer "$TIMELINE"
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].plan.tier === "stop" && shutdowns[0].end.kind === "cut" && shutdowns[0].end.phase === 2 && boots[0].end === "cut"'
}
check_goes_on() { # killed in phases 1 and 2 while another program's lock delays the machine: restarted, the agent continues and signals no pod twice
  up_and_armed
  ns sh 'systemd-run -q --unit=holder systemd-inhibit --what=shutdown --mode=delay --who=other sleep 60; sleep 0.5'
  go 'systemctl poweroff' "$(when_told web); systemctl kill --kill-whom=main -s KILL nodewarden
    $(when_told db); systemctl kill --kill-whom=main -s KILL nodewarden"
  gone
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
  [ "$(awk '$2 == "nodewarden" && $3 == "killed"' "$TIMELINE" | grep -c .)" = 2 ] || fail 'it was not killed twice: this proves nothing'
  local told started PLAN='web told 0
stuck told 0
stuck killed 3000
db told 3000'
  in_time "$TIMELINE" 1500
  # db ends while the agent is away: phase 2 is over at the latest when it should be, or when a busy machine has started
  # it, and systemd, the bus and logind have answered it.
  told=$(at "$TIMELINE" dns told)
  started=$(awk '$2 == "nodewarden" && $3 == "killed" { killed++ } killed == 2 && $2 == "agent" { print $1; exit }' "$TIMELINE")
  [ "${told:-0}" -ge "$(at "$TIMELINE" db ends)" ] || fail 'dns was told before db had ended'
  [ "$told" -le $((7000 + waited_ms)) ] || [ "$told" -le $((started + 2000 + 4 * waited_ms)) ] || fail "dns told after $told ms, phase 2 ends after 6000 ms, the agent was back after $started ms"
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].resumed.length === 2 && shutdowns[0].end.kind === "released" && boots[0].end === "graceful"'
}
check_whole_grace() { # killed in a phase while another program's lock delays the machine: restarted, the agent leaves each pod all of its grace period
  up_with "$ORDER only_ours; order_unit slow never; order_unit fin 7.5; order_pod slow 0 5; order_pod fin 0; $(one_phase 10)
    systemctl daemon-reload; systemctl start slow fin"
  ns sh 'systemd-run -q --unit=holder systemd-inhibit --what=shutdown --mode=delay --who=other sleep 60; sleep 0.5'
  go 'systemctl poweroff' "$(when_told slow); sleep 1; systemctl kill --kill-whom=main -s KILL nodewarden"; gone
  [ "$(awk '$2 == "nodewarden" && $3 == "killed"' "$TIMELINE" | grep -c .)" = 1 ] || fail 'it was not killed: this proves nothing'
  nobody_untold slow fin
  local had; had=$(($(at "$TIMELINE" slow killed) - $(at "$TIMELINE" slow told)))
  # What it logs when it is told may be late; the time that it declares is not.
  [ "$had" -ge $((4500 - waited_ms)) ] || fail "slow, which declares 5 s, was killed $had ms after it was told"
  [ -n "$(at "$TIMELINE" fin ends)" ] || fail 'fin was killed before it could end'
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].resumed.length === 1 && shutdowns[0].end.kind === "released"'
  history_is 'shutdowns[0].phases[0].pods.find(({ pod }) => pod === "default/fin").end.via !== "sigkill"'
}
check_agent_hangs() { # an agent that hangs in a phase delays the machine by no more than it was granted
  up_and_armed
  go 'systemctl poweroff' "$(when_told web); systemctl kill --kill-whom=all -s STOP nodewarden"; gone 60
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
}
check_agent_pauses() { # an agent that stands still past the end of a phase: of a pod that ended in time, nothing says that it did not
  local ASKED_MS=24000
  up_with "$(config 'shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 3}, {priority: 1000, shutdownGracePeriodSeconds: 15}, {priority: 2000000000, shutdownGracePeriodSeconds: 4}]')"
  go 'systemctl poweroff' "$(when_told web); systemctl kill --kill-whom=main -s STOP nodewarden; sleep 4; systemctl kill --kill-whom=main -s CONT nodewarden"; gone
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
  [ "$(at "$TIMELINE" db told)" -gt "$(at "$TIMELINE" web ends)" ] || fail 'db was told before web had ended'
  local line; line=$(grep 'agent phase shutdown phase 1 is over' "$TIMELINE")
  [ "$(at "$TIMELINE" agent released)" -lt 22000 ] || { echo 'it stood still until no time was left'; exit 77; }
  [[ $line == *default/stuck* && $line != *default/web* ]] || fail "$line"
  ns up --again
  history_is 'shutdowns[0].phases[0].pods.filter(({ isLate }) => isLate).map(({ pod }) => pod).join() === "default/stuck"'
}
check_two_paths() { # systemd is asked for reboot.target in phase 2: the phases continue, and the next boot does not say that their time was used up
  up_and_armed
  go 'systemctl poweroff' "$(when_told db); systemctl start --no-block reboot.target"; gone
  plan_holds "$TIMELINE" 1000 1000
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].end.kind === "released" && shutdowns[0].released.isOvertaken === true'
  [[ $(status shutdown.last) == *'systemd began to stop everything before the phases were over'* ]] || fail "$(status shutdown.last)"
}
# SIGKILL in phase $1: the lock is gone with the agent, systemd goes on, and the record says where it ended
killed_in_phase() {
  up_and_armed
  go 'systemctl poweroff' "$(when_told "${FIRST[$1]}"); systemctl kill --kill-whom=main -s KILL nodewarden"; gone
  nobody_told_twice "$TIMELINE"; waited_no_longer "$TIMELINE"
  local down killed
  killed=$(at "$TIMELINE" nodewarden killed); down=$(at "$TIMELINE" machine down)
  [ -n "$killed" ] || fail 'it was not killed: this proves nothing'
  [ $((down - killed)) -le $((1000 + waited_ms)) ] || fail "the machine waited $((down - killed)) ms for a dead agent"
  ns up --again
  history_is "shutdowns.length === 1 && shutdowns[0].end.kind === 'cut' && shutdowns[0].end.phase === $1"
}
check_killed_in_1() { killed_in_phase 1; } # SIGKILL of the agent in phase 1: the machine goes down, and the record says what was cut
check_killed_in_2() { killed_in_phase 2; } # SIGKILL of the agent in phase 2: the machine goes down, and the record says what was cut
check_killed_in_3() { killed_in_phase 3; } # SIGKILL of the agent in phase 3: the machine goes down, and the record says what was cut

# The agent records what it undid once the last of its stops is settled, which may be after the units run again.
is_undo_recorded() { (history_is 'shutdowns[0].undone !== null'); }
undo_recorded() { until_true 25 'the undo is in the record' is_undo_recorded; }
is_active() { [ "$(ns sh 'systemctl is-active web stuck db dns other | sort -u')" = active ]; }
# After a logind that forgot it: everything that was stopped runs again, and nothing else was touched.
is_undone() { # is_undone BEFORE
  until_true 25 'all units are active again' is_active
  [ "$(ns sh 'systemctl is-active idle')" = inactive ] || fail 'a unit that did not run before was started'
  armed; until_true 10 'one lock' has_holders 1; is_proven; undo_recorded
  read_timeline; nobody_told_twice "$TIMELINE"
  grep -q '^[0-9]* agent [a-z]* shutdown cancelled' "$TIMELINE" || fail 'no log line says that it was cancelled'
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
  is_undone "$before"
  # And the next one works.
  go 'systemctl poweroff'; gone
  nobody_told_twice "$TIMELINE"; plan_holds "$TIMELINE" 1000 500
}
check_logind_killed() { logind_in_phase 1 'systemctl kill -s KILL systemd-logind'; } # logind killed during the delay: a cancel; exactly the stopped units run again, and the next shutdown works
check_logind_in_1() { logind_in_phase 1 'systemctl restart systemd-logind'; } # logind restarted in phase 1: a cancel; exactly the stopped units run again, and the next shutdown works
check_logind_in_2() { logind_in_phase 2 'systemctl restart systemd-logind'; } # logind restarted in phase 2: a cancel; exactly the stopped units run again, and the next shutdown works
check_logind_in_3() { logind_in_phase 3 'systemctl restart systemd-logind'; } # logind restarted in phase 3: a cancel; exactly the stopped units run again, and the next shutdown works
check_logind_gone() { # logind killed in phase 2, and none comes back: a cancel all the same; no further phase, exactly the stopped units run again
  local before
  # db ends long after it is known that there is no logind.
  up_with "$(config 'shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 3}, {priority: 1000, shutdownGracePeriodSeconds: 30}, {priority: 2000000000, shutdownGracePeriodSeconds: 2}]')
    sed -i 's/shutdown-pod.pl db .*/shutdown-pod.pl db 8/; s/=6s/=60s/' /etc/systemd/system/db.service; systemctl daemon-reload; systemctl restart db; rm -f /run/lab-db-told"
  before=$(pids)
  go 'systemctl poweroff' "$(when_told web); systemctl mask -q --runtime systemd-logind; $(when_told db); systemctl kill -s KILL systemd-logind"
  until_true 20 'phase 2' ns sh 'test -e /run/lab-db-told'
  until_true 40 'all units are active again' is_active
  undo_recorded
  ! ns sh 'systemctl is-active systemd-logind' || fail 'logind came back: this proves nothing'
  [ "$(status shutdown.running)" = null ] || fail "it says that a shutdown is in progress: $(status 'JSON.stringify(shutdown)')"
  ns sh 'systemctl unmask -q --runtime systemd-logind; systemctl start systemd-logind'
  is_undone "$before"
  [ -z "$(at "$TIMELINE" dns told)" ] || fail 'dns was told'
}
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
    is_undone "$before"
  fi
}
check_dbus_in_1() { dbus_in_phase 1; } # dbus restarted in phase 1: the machine goes down, or the cancel is recorded and undone
check_dbus_in_2() { dbus_in_phase 2; } # dbus restarted in phase 2: the machine goes down, or the cancel is recorded and undone
check_dbus_in_3() { dbus_in_phase 3; } # dbus restarted in phase 3: the machine goes down, or the cancel is recorded and undone
check_power_cut() { # a power cut: after the next boot, the agent reports an end without a trace and what was running
  up_and_armed; sleep 1.5
  ns cut; ns up --again
  history_is 'shutdowns.length === 0 && boots.length === 1 && boots[0].end === "ungraceful"'
}
check_not_undone() { # after a cancel, the record names a pod that cannot be restarted and the units that were
  up_with 'systemd-run -q --unit=maker --property=Type=forking /bin/sh -c "systemd-run -q --scope --unit=bare sleep 1000 &"
    printf "apiVersion: v1\nkind: Pod\nmetadata: { name: bare, annotations: { nodewarden.dev/systemd-unit: bare.scope } }\nspec: { containers: [{ name: main }] }\n" > /etc/nodewarden/pods.d/bare.yaml'
  go 'systemctl poweroff' "$(when_told web); systemctl restart systemd-logind"
  until_true 25 'all units are active again' is_active
  armed; undo_recorded
  history_is 'shutdowns[0].undone.started.includes("web.service") && shutdowns[0].undone.notUndone.some((line) => line.includes("default/bare") && line.includes("bare.scope"))'
}
check_at_start() { # a power-off within half a second of the agent's start: still the phases in order
  local delay who
  up_with 'systemctl kill -s KILL stuck; systemctl disable -q stuck'
  # Started is not yet ready to be told.
  all_run() { for who in web db dns; do ns journal -b -o cat -t lab-pod | grep -q "^$who [0-9]* runs" || return; done; }
  for delay in ${AT_START:-0 0.03 0.06 0.1 0.15 0.2 0.3 0.4 0.5}; do
    ns sh 'systemctl stop nodewarden'
    until_true 15 'the pods run' all_run
    go "systemctl start --no-block nodewarden; sleep $delay; systemctl poweroff"; gone
    for who in web db dns; do [ -n "$(at "$TIMELINE" $who ends)" ] || fail "$delay s after the start: $who, told after $(at "$TIMELINE" $who told) ms, never ended"; done
    [ "$(at "$TIMELINE" web ends)" -le "$(at "$TIMELINE" db told)" ] && [ "$(at "$TIMELINE" db ends)" -le "$(at "$TIMELINE" dns told)" ] || fail "$delay s after the start: not in order"
    nobody_told_twice "$TIMELINE"
    ns up --again
  done
}
