# shellcheck shell=bash disable=SC2016 # the scripts expand in the guest
# Sourced by test/lab/install: install.sh and the service in a guest, from the release tarball, without compiler and npm.
# grants MICROSECONDS  waits until logind grants that delay: it reads its files again some time after it was asked to
GRANTS='grants() {
    for i in $(seq 100); do
      [ "$(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager InhibitDelayMaxUSec)" = "t $1" ] && return 0
      sleep 0.2
    done
    return 1
  }'

in_guest 'the guest has neither npm nor a compiler' 'fails command -v npm; fails command -v cc'
in_guest 'an old Node is refused with its version, and nothing is installed' '
  printf "#!/bin/sh\necho v18.19.0\n" > /tmp/node18; chmod 755 /tmp/node18
  fails /opt/nodewarden/install.sh --node /tmp/node18 2> /tmp/said
  grep -F "v18.19.0; nodewarden needs 20.19 or newer" /tmp/said
  test ! -e /usr/lib/nodewarden'
in_guest 'a host without systemd is refused' '
  fails unshare -m sh -c "mount -t tmpfs tmpfs /run && /opt/nodewarden/install.sh" 2> /tmp/said
  grep -F "not running systemd" /tmp/said; test ! -e /usr/lib/nodewarden'
in_guest 'an ordinary user is refused' '
  fails setpriv --reuid=65534 --clear-groups /opt/nodewarden/install.sh 2> /tmp/said; grep -F "must run as root" /tmp/said'
in_guest 'a Node that runs only where it is, and that others can change, is refused' '
  mkdir -p /srv/node/bin
  printf "#!/bin/sh\n[ \"\$0\" = /srv/node/bin/node ] && exec %s \"\$@\"\nexit 1\n" "$(command -v node)" > /srv/node/bin/node
  chmod 755 /srv/node/bin/node; chown 65534 /srv/node/bin; /srv/node/bin/node --version
  fails /opt/nodewarden/install.sh --node /srv/node/bin/node 2> /tmp/said
  cat /tmp/said; grep -F "users other than root can change /srv/node/bin." /tmp/said; test ! -e /usr/lib/nodewarden
  chown 0 /srv/node/bin; chmod 775 /srv/node/bin/node
  fails /opt/nodewarden/install.sh --node /srv/node/bin/node 2> /tmp/said; grep -F "can change /srv/node/bin/node." /tmp/said
  rm -r /srv/node'
in_guest '--dry-run installs nothing' '
  /opt/nodewarden/install.sh --dry-run | grep "would install: /usr/lib/nodewarden/nodewarden.js"; test ! -e /usr/lib/nodewarden'
in_guest 'it installs the program, the units, the configuration and the group, and enables without starting' '
  /opt/nodewarden/install.sh
  test -x /usr/lib/nodewarden/nodewarden.js; test -f /etc/nodewarden/config.yaml; test -d /etc/nodewarden/pods.d
  getent group nodewarden; [ "$(systemctl is-enabled nodewarden)" = enabled ]; [ "$(systemctl is-active nodewarden)" = inactive ]
  nodewarden --version'
in_guest 'systemd accepts the units without a word' '
  said=$(systemd-analyze verify nodewarden.service nodewarden.slice 2>&1); [ -z "$said" ]'
in_guest 'the exposure of the service is at most 2.5' 'systemd-analyze security --threshold=25 nodewarden --no-pager > /tmp/security'
in_guest 'it starts after all that the targets pulled in, and is stopped before it, without a cycle' '
  after=" $(systemctl show -P After nodewarden) "
  for unit in multi-user.target graphical.target dbus.service systemd-logind.service network-online.target; do
    case $after in *" $unit "*) ;; *) exit 1 ;; esac
  done
  case " $(systemctl show -P Wants multi-user.target) " in *" nodewarden.service "*) ;; *) exit 1 ;; esac
  case " $(systemctl show -P After multi-user.target) " in *" nodewarden.service "*) exit 1 ;; esac
  case " $(systemctl show -P Wants nodewarden) " in *network-online*) exit 1 ;; esac
  said=$(systemd-analyze verify default.target 2>&1 | grep -i cycle) || true; [ -z "$said" ]'
in_guest 'inside its sandbox the delay of logind can be raised, and the lock be taken and kept through the stop' '
  # Left behind after a failure, it would fail the checks that follow.
  trap "systemctl stop nodewarden; rm -rf /etc/systemd/system/nodewarden.service.d /run/systemd/logind.conf.d /run/nodewarden/lab-stop
    systemctl kill -s HUP systemd-logind; systemctl daemon-reload" EXIT
  mkdir -p /etc/systemd/system/nodewarden.service.d
  printf "[Service]\nExecStart=\nExecStart=/bin/bash /opt/lab/lock.sh\n" > /etc/systemd/system/nodewarden.service.d/lab.conf
  mkdir -p /opt/lab; cat > /opt/lab/lock.sh <<"LOCK"
trap "sleep 1; systemd-inhibit --list --no-legend > /run/nodewarden/lab-stop; exit 0" TERM
echo "on standard output"; echo "on standard error" >&2
cd /run/systemd/logind.conf.d && printf "[Login]\nInhibitDelayMaxSec=42\n" > new && mv new zz-lab.conf || exit 1
busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager KillUnit ssi systemd-logind.service main 1 || exit 1
coproc systemd-inhibit --what=shutdown --mode=delay --who=nodewarden --why=lab /bin/sh -c "echo locked; exec cat"
read -r line <&"${COPROC[0]}"; [ "$line" = locked ] || exit 1
systemd-notify --ready
while :; do sleep 0.1; done
LOCK
  test ! -e /run/systemd/logind.conf.d
  systemctl daemon-reload; systemctl start nodewarden
  [ "$(stat -c %a /run/systemd/logind.conf.d)" = 755 ]
  '"$GRANTS"'; grants 42000000
  systemctl stop nodewarden; grep "^nodewarden .* shutdown" /run/nodewarden/lab-stop
  [ -z "$(systemd-inhibit --list --no-legend)" ]
  journalctl --sync; journalctl -u nodewarden -o cat | grep "on standard output"'
on_console() { # SENTENCE of standard error, SENTENCE of standard output
  grep -F "$1" "$LAB_CACHE/vm/run/$LAB_VM/console.log" && ! grep -F "$2" "$LAB_CACHE/vm/run/$LAB_VM/console.log"
}
check 'its standard error is on the console, its log is not' on_console 'on standard error' 'on standard output'
in_guest 'systemctl start returns when it observes' '
  systemctl start nodewarden; [ "$(systemctl is-active nodewarden)" = active ]
  nodewarden status -o json > /tmp/status; grep -q "memory.available" /tmp/status'
in_guest 'it runs in its slice with real-time priority, adjusted and protected' '
  pid=$(systemctl show -P MainPID nodewarden)
  [ "$(cut -d" " -f 41 /proc/$pid/stat)" = 2 ]; [ "$(cat /proc/$pid/oom_score_adj)" = -999 ]
  grep -q nodewarden.slice/nodewarden.service /proc/$pid/cgroup
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then [ "$(cat /sys/fs/cgroup/nodewarden.slice/nodewarden.service/memory.min)" = 75497472 ]; fi'
in_guest 'its files are closed to others and open to the group' '
  [ "$(stat -c "%a %U %G" /run/nodewarden/nodewarden.sock)" = "660 root nodewarden" ]
  [ "$(stat -c "%a %U %G" /var/lib/nodewarden)" = "750 root nodewarden" ]'
in_guest 'a member of the group may ask for the status, others may not' '
  gid=$(getent group nodewarden | cut -d: -f3)
  setpriv --reuid=65534 --regid=65534 --groups="$gid" nodewarden status > /tmp/member
  fails setpriv --reuid=65534 --regid=65534 --clear-groups nodewarden status'
in_guest 'it reloads on SIGHUP and keeps its process' '
  pid=$(systemctl show -P MainPID nodewarden)
  printf "apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nevictionPressureTransitionPeriod: 7s\n" > /etc/nodewarden/config.yaml
  systemctl reload nodewarden; sleep 2
  [ "$(systemctl show -P MainPID nodewarden)" = "$pid" ]; [ "$(systemctl is-active nodewarden)" = active ]
  journalctl --sync; journalctl -u nodewarden -o cat | grep "\"event\":\"config\""'
AGAIN='again() {
    pid=$(systemctl show -P MainPID nodewarden); kill -KILL "$pid"
    for i in $(seq 100); do now=$(systemctl show -P MainPID nodewarden); [ "$(systemctl is-active nodewarden)" = active ] && [ "$now" != "$pid" ] && [ "$now" != 0 ] && break; sleep 0.2; done
    [ "$(systemctl is-active nodewarden)" = active ]; [ "$now" != "$pid" ]; [ "$(systemctl show -P NRestarts nodewarden)" -ge 1 ]
  }
'
in_guest 'killed, it is started again' "$AGAIN again"
in_guest 'killed while the disk with /tmp is full, it is started again' "$AGAIN"'
  mount -t tmpfs -o size=64k,nr_inodes=1 nodewarden-lab /tmp; trap "umount /tmp" EXIT; fails mkdir /tmp/full
  again'
in_guest 'it stops cleanly' '
  systemctl stop nodewarden; [ "$(systemctl show -P Result nodewarden)" = success ]; [ "$(systemctl show -P ExecMainStatus nodewarden)" = 0 ]'
in_guest 'a broken configuration starts with the last good one, and is said in the journal and the status' '
  cp /etc/nodewarden/config.yaml /tmp/good.yaml; echo "evictionHart: {}" >> /etc/nodewarden/config.yaml
  systemctl start nodewarden; [ "$(systemctl is-active nodewarden)" = active ]
  journalctl --sync; journalctl -u nodewarden -o cat | grep evictionHart
  nodewarden status > /tmp/status; grep evictionHart /tmp/status; systemctl stop nodewarden'
in_guest 'without a last good one a bad configuration is a failed unit, said in the journal, and no restart loop' '
  rm /var/lib/nodewarden/config-last-good.json
  fails systemctl start nodewarden; sleep 2
  [ "$(systemctl is-active nodewarden)" = failed ]; [ "$(systemctl show -P ExecMainStatus nodewarden)" = 2 ]
  journalctl --sync; journalctl -u nodewarden -o cat | grep evictionHart
  cp /tmp/good.yaml /etc/nodewarden/config.yaml; systemctl reset-failed nodewarden'
in_guest 'installing again changes nothing, and keeps the configuration that was edited' '
  before=$(find /usr/lib/nodewarden /usr/bin/nodewarden /usr/lib/systemd/system/nodewarden.* /etc/nodewarden -type f -printf "%p %T@ %i\n")
  /opt/nodewarden/install.sh > /tmp/said; grep "nothing to change" /tmp/said
  after=$(find /usr/lib/nodewarden /usr/bin/nodewarden /usr/lib/systemd/system/nodewarden.* /etc/nodewarden -type f -printf "%p %T@ %i\n")
  [ "$before" = "$after" ]; cmp /tmp/good.yaml /etc/nodewarden/config.yaml'
in_guest 'an upgrade restarts a running service' '
  systemctl start nodewarden; pid=$(systemctl show -P MainPID nodewarden)
  echo "// another version" >> /opt/nodewarden/dist/nodewarden.js
  /opt/nodewarden/install.sh | grep "restarted"; [ "$(systemctl show -P MainPID nodewarden)" != "$pid" ]; [ "$(systemctl is-active nodewarden)" = active ]'
in_guest '--uninstall --dry-run removes nothing, and does not say that it did' '
  /opt/nodewarden/install.sh --uninstall --dry-run > /tmp/said; grep "would run: rm -f /usr/bin/nodewarden" /tmp/said
  fails grep "is uninstalled" /tmp/said; [ "$(systemctl is-active nodewarden)" = active ]; nodewarden --version'
in_guest 'uninstalling leaves only what the user changed, and names it' '
  echo "kind: List" > /etc/nodewarden/pods.d/mine.yaml
  /opt/nodewarden/install.sh --uninstall > /tmp/said
  grep "kept: /etc/nodewarden/config.yaml" /tmp/said
  left=$(find / -xdev -path /opt -prune -o -path /tmp -prune -o -path /var/log -prune -o -path /proc -prune -o -name "*nodewarden*" -print; find /run -name "*nodewarden*")
  [ "$left" = /etc/nodewarden ]; [ "$(ls /etc/nodewarden)" = "config.yaml
pods.d" ]; fails getent group nodewarden; fails systemctl cat nodewarden.service'
in_guest 'uninstalling what nobody changed leaves nothing at all' '
  rm -r /etc/nodewarden; /opt/nodewarden/install.sh --start > /tmp/said; /opt/nodewarden/install.sh --uninstall > /tmp/said; fails grep kept: /tmp/said
  [ -z "$(find / -xdev -path /opt -prune -o -path /tmp -prune -o -path /var/log -prune -o -path /proc -prune -o -name "*nodewarden*" -print; find /run -name "*nodewarden*")" ]'
in_guest 'uninstalling gives logind its old delay back, and leaves the drop-ins of others' '
  '"$GRANTS"'
  /opt/nodewarden/install.sh > /tmp/said; mkdir -p /run/systemd/logind.conf.d
  printf "# of somebody else\n[Login]\nInhibitDelayMaxSec=12\n" > /run/systemd/logind.conf.d/nodewarden.conf
  printf "# Written by nodewarden for \"/run/nodewarden\", which removes it again when it needs no delay.\n[Login]\nInhibitDelayMaxSec=42\n" > /run/systemd/logind.conf.d/zz-nodewarden.conf
  systemctl kill -s HUP systemd-logind; grants 42000000
  /opt/nodewarden/install.sh --uninstall; grants 12000000
  [ "$(ls -A /run/systemd/logind.conf.d)" = nodewarden.conf ]
  rm -r /run/systemd/logind.conf.d; systemctl kill -s HUP systemd-logind'
vm push "$LAB/load.pl" /opt/lab
in_guest 'uninstalling starts what an eviction still holds down' '
  printf "[Slice]\nMemoryMax=384M\nMemorySwapMax=0\n" > /run/systemd/system/lab.slice
  for unit in web:40 eater:300; do
    printf "[Service]\nSlice=lab.slice\nRestart=always\nExecStart=/usr/bin/perl /opt/lab/load.pl \"memory ${unit#*:}\" stay\n" > "/run/systemd/system/lab-${unit%:*}.service"
  done
  systemctl daemon-reload; systemctl start lab-web
  /opt/nodewarden/install.sh
  printf "apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\ncgroupRoot: /lab.slice\nevictionHard: { memory.available: 100Mi }\n" > /etc/nodewarden/config.yaml
  printf "apiVersion: v1\nkind: Pod\nmetadata: { name: web, annotations: { nodewarden.dev/systemd-unit: lab-web.service } }\nspec: { containers: [{ name: main }] }\n" > /etc/nodewarden/pods.d/web.yaml
  systemctl start nodewarden lab-eater
  # Restart= may be faster than the first word to systemd: it is stopped again then.
  for i in $(seq 300); do [ "$(systemctl is-active lab-web)" != inactive ] || break; sleep 0.2; done
  sleep 1; journalctl --no-pager --unit nodewarden --lines 20; fails systemctl is-active lab-web
  /opt/nodewarden/install.sh --uninstall
  [ "$(systemctl is-active lab-web)" = active ]
  # As bare as it was, for what comes after.
  systemctl stop lab-web lab-eater; rm -r /etc/nodewarden /run/systemd/system/lab*; systemctl daemon-reload'
