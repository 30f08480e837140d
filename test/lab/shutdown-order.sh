# shellcheck shell=bash disable=SC2016,SC2034,SC2154,SC2317 # scripts expand inside; checks are called by name; waited_ms: shutdown-scene.sh
# Sourced by shutdown-container.sh: units that hang together, many of them, and an agent that is restarted in a phase.

# Inside: `order_unit NAME SECONDS LINE...` makes a unit with these lines in [Unit], `order_pod NAME PRIORITY [GRACE]` a pod of it.
ORDER='order_unit() { local name=$1 seconds=$2; shift 2
    { echo "[Unit]"; [ $# = 0 ] || printf "%s\n" "$@"
      printf "[Service]\nExecStart=/usr/bin/perl /opt/lab/shutdown-pod.pl %s %s\nSyslogIdentifier=lab-pod\nTimeoutStopSec=%s\n${RESTART:-}" "$name" "$seconds" "${STOP:-60s}"
    } > "/etc/systemd/system/$name.service"; }
  order_pod() {
    printf "apiVersion: v1\nkind: Pod\nmetadata: { name: %s, annotations: { nodewarden.dev/systemd-unit: %s.service } }\nspec: { priority: %s, terminationGracePeriodSeconds: %s, containers: [{ name: main }] }\n" "$1" "$1" "$2" "${3:-30}" > "/etc/nodewarden/pods.d/$1.yaml"; }
  only_ours() { systemctl disable -q web stuck db dns other; systemctl kill -s KILL web stuck db dns other; rm -f /etc/nodewarden/pods.d/*; systemctl daemon-reload; systemctl reset-failed; sleep 0.3; }
  '
one_phase() { config "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: $1}]"; }
two_phases() { config "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: $1}, {priority: 1000, shutdownGracePeriodSeconds: $1}]"; }
nobody_untold() { # nobody was killed who had not been told
  local name
  for name in "$@"; do
    [ -n "$(at "$TIMELINE" "$name" told)" ] || fail "$name was never told"
    local told killed; told=$(at "$TIMELINE" "$name" told); killed=$(at "$TIMELINE" "$name" killed)
    [ -z "$killed" ] || [ "$killed" -gt "$told" ] || fail "$name was killed before it was told"
  done
}
# after A EVENT B EVENT  the one before the other
after() { [ "$(at "$TIMELINE" "$3" "$4")" -ge "$(at "$TIMELINE" "$1" "$2")" ] || fail "$3 $4 before $1 $2"; }

# ordered DB MID FRONT  a power-off with three units, of which front stops first; each ends so many seconds after its SIGTERM
ordered() {
  up_with "$ORDER only_ours; order_unit db $1; order_unit mid $2 After=db.service; order_unit front $3 After=mid.service
    for name in db mid front; do order_pod \$name 0; done; $(one_phase 9); systemctl daemon-reload; systemctl start db mid front"
  sleep 1
  go 'systemctl poweroff'; gone
  nobody_untold front mid db
}
check_order_ends() { # ordered units: each is signalled once those before it have ended, and all end by themselves
  ordered 2 2 2
  after front ends mid told; after mid ends db told
  [ -n "$(at "$TIMELINE" db ends)" ] || fail 'db did not end by itself'
  [ "$(at "$TIMELINE" db ends)" -lt "$(at "$TIMELINE" agent released)" ] || fail 'the phase did not wait for db'
  ns up --again
  history_is 'shutdowns[0].phases[0].pods.every(({ end }) => end.kind === "ended" && end.via === "stop-unit")'
  history_is 'shutdowns[0].phases[0].pods.find(({ pod }) => pod === "default/db").toldAfterMs >= 3500'
  ns sh 'nodewarden history --shutdowns' | grep -E 'default/db .*asked to stop after ([4-9]|[1-9][0-9])([.]|s)' || fail "$(ns sh 'nodewarden history --shutdowns')"
}
check_order_at_once() { # ordered units that end at once when they are signalled: history shows when each was, not its wait for the others
  ordered 0 0 2
  after front ends mid told; after mid ends db told
  ns up --again
  history_is '["db", "mid"].every((name) => shutdowns[0].phases[0].pods.some(({ pod, toldAfterMs, end }) => pod === `default/${name}` && end.kind === "ended" && toldAfterMs >= 1500 && end.afterMs < toldAfterMs))'
}
check_order_never() { # ordered units that never end: they share the time of the phase, and none is killed without a SIGTERM first
  ordered never never never
  after front killed mid told; after mid killed db told
  # Each share is of what is left when its pod is told, however long systemd took to tell it.
  local PLAN="front told 0
front killed 3000
mid killed $(((9000 - $(at "$TIMELINE" mid told)) / 2)) mid told
db killed 9000"
  in_time "$TIMELINE" 700
}
# A unit that ends 1 s after it was told, and then cleans up for $1 s.
cleans_up() {
  up_with "$ORDER only_ours; order_unit first 1; order_unit db 1
    sed -i '/^ExecStart=/a ExecStopPost=/bin/sh -c \"sleep $1; echo first 0 cleaned\"' /etc/systemd/system/first.service
    order_pod first 0; order_pod db 1000; $(two_phases 6); systemctl daemon-reload; systemctl start first db"
  sleep 1
  go 'systemctl poweroff'; gone
}
check_clean_up() { # a unit that cleans up (ExecStopPost=) has ended once that is done: the next phase waits
  cleans_up 3
  after first cleaned db told
  [ "$(at "$TIMELINE" db told)" -lt $((5500 + waited_ms)) ] || fail 'the phase went on after it had cleaned up'
  ns up --again
  history_is 'shutdowns[0].phases[0].pods[0].end.kind === "ended" && shutdowns[0].phases[0].pods[0].end.via === "stop-unit"'
}
check_clean_up_never() { # a unit whose clean-up never ends: its phase bounds it, and history says that it was killed
  cleans_up 60
  [ -z "$(at "$TIMELINE" first cleaned)" ] || fail 'it cleaned up: this proves nothing'
  local PLAN='first told 0
db told 6000'
  in_time "$TIMELINE" 1500
  ns up --again
  history_is 'shutdowns[0].phases[0].pods[0].end.via === "sigkill"'
}
check_order_cancelled() { # cancelled while a chain is being stopped: units still waiting are not signalled, stopped ones are restarted
  up_with "$ORDER only_ours; order_unit db 2; order_unit mid 2 After=db.service; order_unit front 8 After=mid.service
    for name in db mid front; do order_pod \$name 0; done; $(one_phase 30); systemctl daemon-reload; systemctl start db mid front"
  sleep 1
  go 'systemctl poweroff' "$(when_told front); sleep 0.3; systemctl restart systemd-logind"
  is_back() { ns sh 'nodewarden history --shutdowns' | grep 'restarted: front.service'; }
  until_true 40 'front is started again' is_back
  sleep 3; read_timeline
  [ -z "$(at "$TIMELINE" mid told)$(at "$TIMELINE" db told)" ] || fail 'a unit was told after the cancel'
  history_is '["db", "mid"].every((name) => shutdowns[0].phases[0].pods.find(({ pod }) => pod === `default/${name}`).end.because === "cancelled")'
}
check_order_past_logind() { # the same without logind's signal
  up_with "$ORDER only_ours; order_unit db 1 Before=nodewarden.service; order_unit mid 1 After=db.service Before=nodewarden.service; order_unit front 1 After=mid.service Before=nodewarden.service
    for name in db mid front; do order_pod \$name 0; done; $(one_phase 9); systemctl daemon-reload; systemctl start db mid front"
  sleep 1
  go 'systemctl start --no-block poweroff.target'; gone
  nobody_untold front mid db
  after front ends mid told; after mid ends db told
}
# in_phase_2 POD FOR  the rehearsal says that it is there because of the other one
in_phase_2() {
  ns sh 'nodewarden rehearse shutdown' | tee /dev/stderr | grep -q "default/$1 .*default/$2" || fail "the rehearsal does not say why $1 is in phase 2"
}
check_order_requires() { # Requires= across phases: the dependency is stopped with its dependent, after it, and every unit gets SIGTERM first
  up_with "$ORDER only_ours; order_unit base 1; order_unit app 1.5 Requires=base.service After=base.service; order_unit web 1
    order_pod base 0; order_pod app 1000; order_pod web 0; $(two_phases 6); systemctl daemon-reload; systemctl start app web"
  sleep 1
  in_phase_2 base app
  go 'systemctl poweroff'; gone
  nobody_untold web app base
  after web ends app told; after app ends base told
}
check_order_starting() { # a critical pod that is still starting, and requires a pod of priority 0: neither is stopped in the first phase
  up_with "$ORDER only_ours; order_unit first 3; order_unit lo 1
    order_pod first 0; order_pod lo 0; order_pod hi 2000000000; $(two_phases 10)
    RESTART='Type=notify\nTimeoutStartSec=600\n' order_unit hi 1 Requires=lo.service After=lo.service
    systemctl daemon-reload; systemctl start first lo"
  # Not loaded before, so nothing that was asked before knows of it; it never says that it is ready.
  ns sh 'systemctl start --no-block hi'
  has_phase() { [ "$(status 'shutdown.phases.map(({ pods }) => pods).join()')" = 1,2 ]; }
  if ! (until_true 20 'lo has the phase of hi' has_phase); then status 'JSON.stringify(shutdown.phases)'; fi
  [ "$(ns sh 'systemctl is-active hi')" = activating ] || fail 'hi does not start any more: this proves nothing'
  go 'systemctl poweroff'; gone
  nobody_untold first hi lo
  after first ends hi told; after hi ends lo told
  [ -n "$(at "$TIMELINE" lo ends)" ] || fail 'lo did not end by itself'
}
check_order_unneeded() { # StopWhenUnneeded= across phases: the last unit that needs the pod is stopped in the pod's phase, others are not
  up_with "$ORDER only_ours; order_unit aid 1 StopWhenUnneeded=yes; order_unit early 1 Wants=aid.service After=aid.service; order_unit late 1 Wants=aid.service After=aid.service
    order_pod aid 1000; order_pod early 0; order_pod late 10; $(two_phases 6); systemctl daemon-reload; systemctl start early late"
  sleep 1
  in_phase_2 late aid
  go 'systemctl poweroff'; gone
  nobody_untold early late aid
  after early ends late told; after late ends aid told
}
check_order_slice() { # a slice whose services are ordered, and the first never ends: the other is still signalled
  up_with "$ORDER only_ours; RESTART='Slice=shop.slice\n' order_unit first never; RESTART='Slice=shop.slice\n' order_unit last never After=first.service
    printf 'apiVersion: v1\nkind: Pod\nmetadata: { name: shop, annotations: { nodewarden.dev/systemd-unit: shop.slice } }\nspec: { terminationGracePeriodSeconds: 6, containers: [{ name: main }] }\n' > /etc/nodewarden/pods.d/shop.yaml
    $(one_phase 8); systemctl daemon-reload; systemctl start first last"
  sleep 1
  go 'systemctl poweroff'; gone
  nobody_untold last first
  after last told first told
}
check_order_timeout() { # a TimeoutStopSec= shorter than the grace period: history says that systemd killed the unit
  up_with "$ORDER only_ours; STOP=2s order_unit slow never; order_pod slow 0; $(one_phase 8); systemctl daemon-reload; systemctl start slow"
  sleep 1
  local status=0; ns sh 'nodewarden rehearse shutdown' >&2 || status=$?
  go 'systemctl poweroff'; gone
  ns up --again
  history_is 'shutdowns[0].phases[0].pods[0].end.via === "stop-timeout"'
  ns sh 'nodewarden history --shutdowns' | grep -E 'killed by systemd .*TimeoutStopSec' || fail "$(ns sh 'nodewarden history --shutdowns')"
}
# many PHASES  200 pods, each ends at once and would be started again by systemd. systemd alone may take some seconds for them.
many() {
  local list='' i
  for ((i = 0; i < $1; i++)); do list="$list${list:+, }{priority: $((i * 10)), shutdownGracePeriodSeconds: 30}"; done
  up_with "$ORDER only_ours
    for i in \$(seq 200); do RESTART='Restart=always\nRestartSec=100ms\n' order_unit m\$i 0.05; order_pod m\$i \$((i % $1 * 10)) 30; done
    $(config "shutdownGracePeriodByPodPriority: [$list]"); systemctl daemon-reload"
  all_200_run
  sleep 3
}
# A starved machine takes minutes for this: in parts, none of which lasts as long as a call may.
all_200_run() {
  local n
  for ((n = 1; n <= 200; n += 20)); do ns sh "systemctl start --no-block \$(seq -f m%g.service $n $((n + 19)))"; done
  until_true 240 '200 pods run' run_now 200
}
run_now() { [ "$(ns sh 'systemctl list-units --no-legend --state=active,deactivating "m*.service" | grep -c "^ *m[0-9]"')" = "$1" ]; }
told_count() { awk '$3 == "told" && $2 ~ /^m[0-9]/ { told[$2] = 1 } END { n = 0; for (name in told) n++; print n }' "$TIMELINE"; }
last_told() { awk '$2 ~ /^m[0-9]/ && $3 == "told" && $1 > most { most = $1 } END { print most }' "$TIMELINE"; }
check_many_in_1() { # 200 pods in one phase: all are stopped through systemd, none is restarted
  many 1
  # What PID 1 itself takes, asked without anybody else.
  ns sh 'systemctl stop nodewarden'
  go 'systemctl stop --no-block "m*.service"'; until_true 60 'systemctl has stopped them' run_now 0; read_timeline
  [ "$(told_count)" = 200 ] || fail "told by systemctl: $(told_count)"
  figure 'last of 200 told by systemctl ms' "$(last_told)"
  ns sh 'systemctl start nodewarden'; all_200_run; armed; sleep 3
  go 'systemctl poweroff'; gone 60
  [ "$(told_count)" = 200 ] || fail "told: $(told_count)"
  [ -z "$(awk '$2 ~ /^m[0-9]/ && $3 == "runs"' "$TIMELINE")" ] || fail 'systemd started one again'
  ! ns journal -b -o cat | grep -E 'MaxListenersExceeded|LimitsExceeded|were signalled' || fail 'not through systemd'
  figure 'last of 200 told ms' "$(last_told)"
  local last released; last=$(awk '$2 ~ /^m[0-9]/ && $3 == "ends" && $1 > most { most = $1 } END { print most }' "$TIMELINE")
  released=$(at "$TIMELINE" agent released)
  figure 'release after the last of 200 ended ms' $((released - last))
  [ $((released - last)) -le $((3000 + waited_ms)) ] || fail "released $((released - last)) ms after the last of 200 ended"
}
check_many_in_5() { # 200 pods in five phases: in order, and none is restarted
  many 5
  go 'systemctl poweroff'; gone 90
  [ "$(told_count)" = 200 ] || fail "told: $(told_count)"
  [ -z "$(awk '$2 ~ /^m[0-9]/ && $3 == "runs"' "$TIMELINE")" ] || fail 'systemd started one again'
}
# go_and_hang SECONDS UNTIL  PID 1 hangs from when that is so inside
go_and_hang() {
  ( ns sh "$2"; ns signal STOP; sleep "$1"; ns signal CONT ) &
  go 'systemctl poweroff'
}
when_announced() { echo "until [ \"\$(busctl get-property $MANAGER PreparingForShutdown)\" = 'b true' ]; do :; done"; }
check_many_busy() { # PID 1 hangs for 4 s as the phase begins: all are stopped through systemd once it continues
  many 1
  go_and_hang 4 "$(when_announced)"
  gone 60
  [ "$(told_count)" = 200 ] || fail "told: $(told_count)"
  [ -z "$(awk '$2 ~ /^m[0-9]/ && $3 == "runs"' "$TIMELINE")" ] || fail 'systemd started one again'
}
# through_a_hang SECONDS NEEDS HANG  PID 1 hangs from the first phase on; the second one lasts so long, and its pod needs so long
through_a_hang() {
  up_with "$ORDER only_ours; order_unit first never; order_pod first 0; order_unit slow $2; order_pod slow 1000
    $(config "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 2}, {priority: 1000, shutdownGracePeriodSeconds: $1}]")
    systemctl daemon-reload; systemctl start first slow"
  go_and_hang "$3" "$(when_told first)"
  gone
  nobody_untold first slow
  [ -n "$(at "$TIMELINE" slow ends)" ] || fail 'it was killed before it could end'
}
check_last_busy() { through_a_hang 2 0.8 6; } # PID 1 hangs through the last phase: its pod is signalled all the same, and has the time to end
check_long_busy() { through_a_hang 10 3.5 14; } # PID 1 hangs through a long phase: its pod is signalled while half of the time is left
check_asked_busy() { # PID 1 hangs as the shutdown is requested: logind counts its delay from then, so it goes on before the phases are over; they are kept, and history says so
  # Shorter than the 25 s after which logind gives up, longer than its reserve.
  up_with "$(config "${PHASES//: 3/: 6}"); sed -i 's/shutdown-pod.pl db .*/shutdown-pod.pl db 2.5/' /etc/systemd/system/db.service; systemctl daemon-reload; systemctl restart db"
  ns signal STOP
  ( ns sh 'until [ -e /run/lab-asked ]; do sleep 0.02; done'; sleep 9; ns signal CONT ) &
  sleep 1 # it waits by then
  go 'touch /run/lab-asked; systemctl poweroff'; gone 60
  nobody_untold web stuck db dns; nobody_told_twice "$TIMELINE"
  after stuck killed db told; after db ends dns told; after dns ends other told
  ns up --again
  history_is 'shutdowns.length === 1 && shutdowns[0].end.kind === "released" && shutdowns[0].released.isOvertaken === true'
}
check_late_once() { # a pod that waits for a unit that is no pod until its time is nearly over: it is signalled once
  up_with "$ORDER only_ours; order_unit app 1.6; order_unit front 6.6 After=app.service BindsTo=app.service; order_pod app 0
    $(one_phase 8); systemctl daemon-reload; systemctl start front"
  sleep 1
  go 'systemctl poweroff'; gone
  nobody_untold app; nobody_told_twice "$TIMELINE"
  [ -n "$(at "$TIMELINE" app ends)" ] || fail 'it was killed before it could end'
  after app told front ends
}
check_chain_busy() { # PID 1 hangs while ordered units are stopped: each is signalled after those before it, with its time left
  up_with "$ORDER only_ours; order_unit db 2; order_unit mid 2 After=db.service; order_unit front 2 After=mid.service
    for name in db mid front; do order_pod \$name 0; done; $(one_phase 14); systemctl daemon-reload; systemctl start db mid front"
  sleep 1
  go_and_hang 20 "$(when_told front)"; gone 60
  nobody_untold front mid db
  after front ends mid told; after mid ends db told
  [ -n "$(at "$TIMELINE" db ends)" ] || fail 'db was killed before it could end'
}
check_frozen() { # the machine stands still for 8 s within a grace period: its pod has the time to end all the same
  [ -e /sys/fs/cgroup/unified ] || [ -e /sys/fs/cgroup/cgroup.controllers ] || { echo 'no cgroup of version 2 to freeze it in'; exit 77; }
  up_with "$ORDER only_ours; order_unit slow '1 frozen'; order_pod slow 0; $(one_phase 8); systemctl daemon-reload; systemctl start slow"
  ( ns sh "$(when_told slow)"; ns freeze 1; sleep 8; ns freeze 0 ) &
  go 'systemctl poweroff'; gone
  nobody_untold slow
  [ -n "$(at "$TIMELINE" slow ends)" ] || fail 'it was killed before it could end, or the machine did not stand still'
}
# restarted_in N  with a TimeoutStopSec= that is shorter than the phases to come
restarted_in() {
  up_with "mkdir -p /etc/systemd/system/nodewarden.service.d; printf '[Service]\nTimeoutStopSec=4s\n' > /etc/systemd/system/nodewarden.service.d/short.conf"
  go 'systemctl poweroff' "$(when_told "${FIRST[$1]}"); sleep 0.2; systemctl restart --no-block nodewarden"; gone
  plan_holds "$TIMELINE" 1000 1000
}
check_restart_in_1() { restarted_in 1; } # restarted in phase 1 with a TimeoutStopSec= shorter than the phases: no pod is cut short
check_restart_in_2() { restarted_in 2; } # restarted in phase 2 with a TimeoutStopSec= shorter than the phases: no pod is cut short
check_restart_in_3() { restarted_in 3; } # restarted in phase 3 with a TimeoutStopSec= shorter than the phases: no pod is cut short
check_idle() { # RemainAfterExit=yes with ExecStop=: stopped in its phase, which waits for it
  up_with "$ORDER only_ours; order_unit web 1; order_pod web 1000
    printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/sh -c \"echo drain 1 told 1; sleep 2; echo drain 1 ends\"\nSyslogIdentifier=lab-pod\n' > /etc/systemd/system/drain.service
    order_pod drain 0; $(two_phases 6); systemctl daemon-reload; systemctl start web drain"
  sleep 1
  [ "$(status 'shutdown.phases.map(({ pods }) => pods).join()')" = 1,1 ] || fail "$(status 'JSON.stringify(shutdown.phases)')"
  go 'systemctl poweroff'; gone
  after drain told drain ends; after drain ends web told
  ns up --again
  history_is 'shutdowns[0].phases[0].pods.length === 1 && shutdowns[0].phases[0].pods[0].end.via === "stop-unit"'
}
check_idle_past_logind() { # the same without logind's signal: systemd cannot stop it yet, and nothing waits for it
  up_with "$ORDER only_ours; order_unit web 1 Before=nodewarden.service; order_pod web 1000
    printf '[Unit]\nBefore=nodewarden.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/sh -c \"echo drain 1 told 1; sleep 2; echo drain 1 ends\"\nSyslogIdentifier=lab-pod\n' > /etc/systemd/system/drain.service
    order_pod drain 0; $(two_phases 6); systemctl daemon-reload; systemctl start web drain"
  sleep 1
  go 'systemctl start --no-block poweroff.target'; gone
  after web ends drain told
  [ -n "$(at "$TIMELINE" drain ends)" ] || fail 'its stop did not end'
  [ "$(at "$TIMELINE" web told)" -lt 5000 ] || fail 'the first phase waited for it'
  ns up --again
  history_is 'shutdowns[0].phases[0].pods[0].end.because === "left-to-systemd"'
}
check_untold() { # KillMode=process and none leave processes behind: they get SIGTERM once the stop is over
  up_with "$ORDER only_ours; order_unit part 1; order_unit none 1; order_pod part 0; order_pod none 0; $(one_phase 9)
    for name in part none; do mkdir -p /etc/systemd/system/\$name.service.d; done
    printf '[Service]\nKillMode=process\nExecStart=\nExecStart=/bin/sh -c \"perl /opt/lab/shutdown-pod.pl child 1 & exec perl /opt/lab/shutdown-pod.pl part 1\"\n' > /etc/systemd/system/part.service.d/mode.conf
    printf '[Service]\nKillMode=none\nExecStopPost=/bin/true\n' > /etc/systemd/system/none.service.d/mode.conf
    systemctl daemon-reload; systemctl start part none"
  sleep 1
  go 'systemctl poweroff'; gone
  nobody_untold part child none; nobody_told_twice "$TIMELINE"
  after part ends child told
  [ "$(at "$TIMELINE" agent released)" -lt 7000 ] || fail 'the phase took all its time'
  ns up --again
  history_is 'shutdowns[0].phases[0].pods.every(({ end }) => end.kind === "ended" && end.via === "sigterm")'
}
check_edited() { # killed in phase 1 while the configuration is being edited: restarted, the agent continues with the phases that were in force
  up_and_armed
  ns sh 'systemd-run -q --unit=holder systemd-inhibit --what=shutdown --mode=delay --who=other sleep 60; sleep 0.5'
  go 'systemctl poweroff' "$(when_told web); printf 'kind: Nodewar' > /etc/nodewarden/config.yaml; systemctl kill --kill-whom=main -s KILL nodewarden"
  gone
  nobody_told_twice "$TIMELINE"
  [ "$(awk '$2 == "nodewarden" && $3 == "killed"' "$TIMELINE" | grep -c .)" = 1 ] || fail 'it was not killed: this proves nothing'
  PLAN='web told 0
stuck told 0
stuck killed 3000
db told 3000'
  in_time "$TIMELINE" 1500
  [ -n "$(at "$TIMELINE" dns told)" ] && [ "$(at "$TIMELINE" dns told)" -ge "$(at "$TIMELINE" db ends)" ] || fail 'dns was not told after db'
}
