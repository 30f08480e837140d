# shellcheck shell=bash disable=SC2016,SC2154 # the scripts expand in the guest; counts are of guest.sh
# Sourced by test/lab/install: docs/quick-start.md in a guest, section by section, and what it promises.
. "$LAB/install-services.sh"
transcript=$(mktemp) protected_s=0
# section NUMBER  plays it, as a check. What comes after it needs it
section() {
  local before=$failed
  check "quick start: $(sed -n "s/^## \($1\. .*\)/\1/p" "$PAGE")" plays "$1"
  sed '$d; s/^/        /' "$transcript"
  [ "$failed" = "$before" ] || finish lab:install
  [[ " $PROTECTING " != *" $1 "* ]] || protected_s=$(awk "BEGIN { print $protected_s + $(took "$transcript") }")
}
plays() { page "$PAGE" "$1" -- "$LAB/vm/run" -t 900 > "$transcript" || { cat "$transcript"; return 1; }; }

vm push "$RELEASE"/*.deb "$LAB"/{load,shutdown-pod}.pl /opt/lab
in_guest 'there is a web server, a database, and reports that leak; no Node.js, and nothing of nodewarden' '
  mv /usr/bin/node /opt/node; cp /opt/lab/nodewarden*.deb /root
  '"$SERVICES"'
  [ -z "$(find /usr /etc /var/lib -xdev -name "*nodewarden*")" ]'
section 1
section 2
section 3
section 4
in_guest 'reports leaks, and a dry run stops nobody' "$LEAK"'
  before=$(systemctl show -P MainPID reports nginx postgresql@15-main)
  leak 60
  [ "$(systemctl show -P MainPID reports nginx postgresql@15-main)" = "$before" ]'
section 5
section 6
section 7
in_guest 'reports leaks, and is evicted before the kernel kills; the others live, and the command is told' "$LEAK"'
  before=$(systemctl show -P MainPID nginx postgresql@15-main)
  fails leak
  for i in $(seq 100); do [ ! -s /var/log/nodewarden-events ] || break; sleep 0.2; done
  fails systemctl is-active reports
  [ "$(systemctl show -P MainPID nginx postgresql@15-main)" = "$before" ]
  grep "\"event\":\"evicted\"" /var/log/nodewarden-events
  fails grep "oom_kill [1-9]" /proc/vmstat'
section 8
# power_off  by logind, which waits for the agent; then the machine is started again
power_off() {
  guest_arguments > "$RELEASE/arguments"
  vm run 'systemd-run --quiet --on-active=1s --timer-property=AccuracySec=10ms systemctl poweroff'
  vm power wait 300
  boot_disk "$RELEASE/arguments"
  vm run -t 300 'systemctl is-system-running --wait' || vm run 'systemctl --failed --no-legend'
}
check 'a real power-off, and the next boot' power_off
in_guest 'the web server was stopped before the database, and the machine waited for both' '
  journalctl --no-pager -b -1 -o short-unix > /tmp/last
  # By the time that each says itself: the journal takes two lines that waited in either order.
  order=$(sed -nE "s/^([0-9.]+) .*: (nginx)\\.service: Deactivated.*/\\1 \\2/p; s/.*: (postgresql) [0-9]+ (told [0-9]+|ends) @([0-9.]+)$/\\3 \\1 \\2/p
    s/^([0-9.]+) .*: (Stopped target multi-user).*/\\1 \\2/p" /tmp/last | sort -n | cut -d " " -f 2-)
  echo "$order"; [ "$order" = "nginx
postgresql told 1
postgresql ends
Stopped target multi-user" ]'
section 9
in_guest 'an upgrade keeps the configuration and the manifests, restarts the agent, and stops nobody' '
  is_now() { systemctl show -P MainPID reports nginx postgresql@15-main; cat /etc/nodewarden/config.yaml /etc/nodewarden/pods.d/*; }
  agent=$(systemctl show -P MainPID nodewarden); before=$(is_now); ls /etc/nodewarden > /tmp/before
  cd /opt/lab; apt-get -q -y install ./newer.deb < /dev/null
  [ "$(is_now)" = "$before" ]; ls /etc/nodewarden | cmp - /tmp/before; [ "$(systemctl show -P MainPID nodewarden)" != "$agent" ]
  [ "$(systemctl is-active nodewarden)" = active ]; dpkg-query --show --showformat "\${Version}" nodewarden | grep lab
  nodewarden history | grep "evicted default/reports"'
section 10
in_guest 'nothing is left but what the page wrote elsewhere, and nobody was stopped' '
  left=$(find / -xdev \( -path /opt -o -path /tmp -o -path /root -o -path /var/log -o -path /proc \) -prune -o -name "*nodewarden*" -print; find /run -name "*nodewarden*")
  echo "$left"; [ "$left" = /usr/local/bin/nodewarden-notify ]
  fails getent group nodewarden; fails systemctl cat nodewarden.service; [ "$(systemctl is-failed nodewarden)" != failed ]
  [ -z "$(systemd-inhibit --list --no-legend)" ]; [ "$(systemctl is-active nginx postgresql@15-main)" = "active
active" ]'
rm "$transcript"
# Both take as long as the machine lets them: reported, not judged.
native=${native_s:+$native_s s}
echo "zero to protected, by the commands of the quick start: $protected_s s in the guest; in a container at native speed: ${native:-not measured}"
[ -z "${native_s:-}" ] || awk "BEGIN { printf \"the emulation takes %.1f times as long\n\", $protected_s / $native_s }"
