# shellcheck shell=bash disable=SC2016,SC2034,SC2154,SC2317 # as in shutdown-order.sh, whose words these checks use
# Sourced by shutdown-container.sh: units that somebody starts, or ties together, during the shutdown.

check_cancelled_rival() { # cancelled: a unit that was started meanwhile, and that the start of a stopped pod would stop, runs on
  up_with "$ORDER only_ours; order_unit app 0.5; order_unit front 8; order_unit rescue 1 Conflicts=app.service
    order_pod app 0; order_pod front 0; $(one_phase 30); systemctl daemon-reload; systemctl start app front"
  sleep 1
  go 'systemctl poweroff' "$(when_told app); until [ \"\$(systemctl show -P ActiveState app)\" = inactive ]; do sleep 0.05; done; systemctl start rescue; systemctl restart systemd-logind"
  is_back() { ns sh 'nodewarden history --shutdowns' | grep 'restarted: front.service'; }
  until_true 40 'front is started again' is_back
  read_timeline
  [ -z "$(at "$TIMELINE" rescue told)" ] || fail 'rescue was stopped'
  ns sh 'systemctl is-active rescue && ! systemctl is-active app' || fail 'app runs'
  history_is 'shutdowns[0].undone?.notUndone.join() === "default/app: rescue.service runs, and systemd would stop it to start this unit"'
}
check_again_by_path() { # a pod that a path unit starts again is stopped again at once
  up_with "$ORDER only_ours; order_unit first 1; order_unit db 1
    sed -i '/^ExecStart=/i ExecStartPre=-/bin/rm /run/again' /etc/systemd/system/first.service
    printf '[Path]\nPathExists=/run/again\n' > /etc/systemd/system/first.path
    order_pod first 0; order_pod db 1000; $(two_phases 8); systemctl daemon-reload; systemctl start first db first.path; touch /run/again"
  sleep 1
  go 'systemctl poweroff'; gone
  [ -n "$(at "$TIMELINE" first started)" ] || fail 'it was not started again: this proves nothing'
  # It may come back after its phase is over, since nothing says beforehand that it will.
  local again stopped
  again=$(at "$TIMELINE" first started)
  stopped=$(awk -v from="$again" '$2 == "first" && ($3 == "told" || $3 == "stopped") && $1 >= from { print $1; exit }' "$TIMELINE")
  [ -n "$stopped" ] && [ "$stopped" -le $((again + 1000 + waited_ms)) ] || fail "it came back after $again ms, and was stopped again after ${stopped:-never}"
  [ -n "$(at "$TIMELINE" db ends)" ] || fail 'db did not end by itself'
}
check_tied_meanwhile() { # a pod of the next phase that a critical pod needs since the shutdown began is stopped after that one
  up_with "$ORDER only_ours; order_unit front 3; order_unit base 1; order_unit app 1
    order_pod front 0; order_pod base 1000; order_pod app 2000
    $(config 'shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 6}, {priority: 1000, shutdownGracePeriodSeconds: 6}, {priority: 2000, shutdownGracePeriodSeconds: 6}]')
    systemctl daemon-reload; systemctl start base front app"
  sleep 1
  go 'systemctl poweroff' "$(when_told front); mkdir -p /etc/systemd/system/app.service.d
    printf '[Unit]\nRequires=base.service\nAfter=base.service\n' > /etc/systemd/system/app.service.d/tied.conf; systemctl daemon-reload"
  gone
  nobody_untold front app base
  after front ends app told; after app ends base told
}
