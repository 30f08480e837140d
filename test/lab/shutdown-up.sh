# shellcheck shell=bash disable=SC2016,SC2317 # scripts expand inside; checks are called by name
# Sourced by shutdown-container.sh: what holds while the machine stays up. The comment behind a check says what it shows.

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
  figure 'granted by logind where other drop-ins say less ms' "$(granted_ms)"
  ns journal -b -o cat -u nodewarden | grep -q '"event":"armed"' || fail 'no log line'
}
check_enough() { # if logind already grants more, nothing is written and nothing lowered
  container_up
  ns sh 'systemctl stop nodewarden; rm -f /run/systemd/logind.conf.d/*; mkdir -p /etc/systemd/logind.conf.d
    printf "[Login]\nInhibitDelayMaxSec=60\n" > /etc/systemd/logind.conf.d/50-long.conf; systemctl restart systemd-logind; systemctl start nodewarden'
  armed; is_proven
  [ "$(granted_ms)" = 60000 ] || fail "granted $(granted_ms) ms"
  [ -z "$(ns sh 'ls /run/systemd/logind.conf.d 2>/dev/null')" ] || fail 'there is a drop-in'
}
check_competing() { # another program's drop-in that sorts after ours: the agent takes a name that sorts after it
  up_with 'mkdir -p /etc/systemd/logind.conf.d
    for name in zz-nodewarden zzz-last; do printf "[Login]\nInhibitDelayMaxSec=3\n" > /etc/systemd/logind.conf.d/$name.conf; done'
  is_proven
  [ "$(ns sh 'cat /etc/systemd/logind.conf.d/*; ls /run/systemd/logind.conf.d' | paste -sd' ')" = '[Login] InhibitDelayMaxSec=3 [Login] InhibitDelayMaxSec=3 zzz-nodewarden.conf' ] || fail "$(ns sh 'head /etc/systemd/logind.conf.d/* /run/systemd/logind.conf.d/*')"
}
# A drop-in of others than which no name sorts later.
LAST=$(printf 'z%.0s' {1..245}).conf
BEAT_ALL="mkdir -p /etc/systemd/logind.conf.d; printf '[Login]\nInhibitDelayMaxSec=7\n' > /etc/systemd/logind.conf.d/$LAST"
not_armed() { # not_armed COMMAND  after BEAT_ALL and the command
  container_up
  ns sh "systemctl stop nodewarden; rm -f /run/systemd/logind.conf.d/*; $BEAT_ALL; $1; systemctl restart systemd-logind; systemctl start nodewarden"
  is_named() { [[ "$(status shutdown.lock.why)" == *"/etc/systemd/logind.conf.d/$LAST"* ]]; }
  until_true 20 'the drop-in that wins is named' is_named
  lock_is not-armed
}
check_not_armed() { # a drop-in that cannot be beaten is named with its path in status, finding, log and STATUS=; once it is gone, the agent arms by itself
  not_armed true
  local where
  for where in 'nodewarden status' 'systemctl show -P StatusText nodewarden' 'journalctl -b -o cat -u nodewarden | grep \"not-armed\"' 'nodewarden status -o json | grep -A3 findings'; do
    ns sh "$where" | grep "/etc/systemd/logind.conf.d/$LAST" >/dev/null || fail "not in: $where: $(ns sh "$where")"
  done
  [ "$(status 'shutdown.lock.isHeld && shutdown.lock.grantedMs')" = 7000 ] || fail "$(status 'JSON.stringify(shutdown.lock)')"
  ns sh 'rm /etc/systemd/logind.conf.d/*; systemctl kill -s HUP systemd-logind'
  until_true 70 'armed once nothing stands in the way' lock_is armed
  is_proven
}
check_killed() { # killed outside a shutdown, the agent leaves no lock, and holds one again after its restart
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
check_rounds() { # 300 rounds of taking and releasing the lock, with signals in flight: no crash, no hang, no leaked lock
  container_up
  local at=$LAB_CACHE/nspawn/$LAB_VM/disk/root/opt/lab/rounds
  node "$ROOT/scripts/build.mjs" --entry "$ROOT/test/shutdown/rounds.ts" --outdir "$at"
  # Power-offs that logind asks for are refused by systemd, and taken back by logind.
  ns sh 'systemctl stop nodewarden
    mkdir -p /run/systemd/system/poweroff.target.d /run/systemd/system/systemd-logind.service.d
    printf "[Unit]\nRefuseManualStart=yes\n" > /run/systemd/system/poweroff.target.d/refuse.conf
    printf "[Unit]\nStartLimitIntervalSec=0\n" > /run/systemd/system/systemd-logind.service.d/often.conf
    systemctl daemon-reload'
  LAB_TIMEOUT=920 ns sh 'timeout -k 5 900 node /opt/lab/rounds/nodewarden.js'
  has_holders 0 || fail "locks of nodewarden at logind: $(holders)"
}
check_logind_restart() { # logind restarted or killed outside a shutdown: armed again
  local how
  up_and_armed
  for how in 'restart systemd-logind' 'kill -s KILL systemd-logind' 'kill -s HUP systemd-logind'; do
    ns sh "systemctl $how"; sleep 1.5
    armed; until_true 10 "one lock after $how" has_holders 1; is_proven
  done
  nobody_told
}
check_dbus_restart() { # dbus restarted outside a shutdown: armed again
  up_and_armed
  ns sh 'systemctl restart dbus' || true
  sleep 2
  until_true 40 'armed again after dbus was restarted' lock_is armed
  until_true 10 'one lock' has_holders 1; is_proven; nobody_told
}
check_scheduled() { # a scheduled shutdown is shown and stops nothing; once cancelled, it is no longer shown
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
check_foreign_signal() { # a PrepareForShutdown from another sender changes nothing
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

# All that a rehearsal could change, and who runs. What the kernel kills elsewhere on this machine is recorded, too.
everything() {
  ns sh 'cd /; find etc run/systemd run/nodewarden var/lib/nodewarden -type f ! -name state.json ! -name oom-scores.json ! -name record.jsonl ! -path "run/systemd/journal/*" ! -path "*invocation*" -exec sha256sum {} + | sort -k 2
    grep -v kernel-oom-kill var/lib/nodewarden/record.jsonl
    systemctl list-jobs --no-legend; systemctl list-units --all --plain --no-legend; busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager InhibitDelayMaxUSec BlockInhibited DelayInhibited ScheduledShutdown'
  pids; holders
}
check_rehearse() { # a rehearsal changes nothing, and its exit status says whether all pods can finish
  local before code=0 said
  up_with 'for unit in web stuck db dns; do sed -i "s/TimeoutStopSec=.*/TimeoutStopSec=2s/" /etc/systemd/system/$unit.service
    sed -i "s/spec: {/spec: { terminationGracePeriodSeconds: 2,/" /etc/nodewarden/pods.d/$unit.yaml; done; systemctl daemon-reload'
  # The command that sets the scores of the pods is a unit, for a moment.
  until_true 30 'the scores of the pods are set' ns sh 'nodewarden status -o json | grep -q oomScoreAdj && ! systemctl list-units --all --no-legend "nodewarden-command-*" | grep -q .'
  before=$(everything)
  said=$(ns sh 'nodewarden rehearse shutdown') || fail "exit status $?: $said"
  [ "$(everything)" = "$before" ] || fail "$(diff <(echo "$before") <(everything))"
  # A grace above the phase alone is not known to be needed; that systemd kills it before its grace is known.
  ns sh 'sed -i "s/PeriodSeconds: 2/PeriodSeconds: 30/" /etc/nodewarden/pods.d/dns.yaml
    sed -i "s/TimeoutStopSec=.*/TimeoutStopSec=30s/" /etc/systemd/system/dns.service; systemctl daemon-reload'
  sleep 2
  said=$(ns sh 'nodewarden rehearse shutdown') || fail "exit status $?: $said"
  [[ $said == *default/dns*'may not finish'* ]] || fail "not said: $said"
  ns sh 'sed -i "s/PeriodSeconds: 2/PeriodSeconds: 20/" /etc/nodewarden/pods.d/db.yaml'
  sleep 2
  said=$(ns sh 'nodewarden rehearse shutdown') || code=$?
  [ $code = 1 ] && [[ $said == *'cannot finish'*default/db* ]] || fail "exit status $code: $said"
  ns sh 'systemctl stop nodewarden'; code=0
  ns sh 'nodewarden rehearse shutdown' || code=$?
  [ $code = 3 ] || fail "exit status $code without the agent"
}
