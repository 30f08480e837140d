# shellcheck shell=bash
# shellcheck disable=SC2016 # the scripts expand in the guest
# Sourced by test/lab/install, with a guest that has no nodewarden and the release in /opt/nodewarden: the Debian packages
# on a bare Debian 12, from the installation to the purge.

# make_debs DIR  as /opt/debs in the guest; older.deb has a lower version and another config.yaml
make_debs() {
  (cd "$ROOT" && node scripts/deb.mjs --outdir "$1" && node scripts/deb.mjs --without-node --version 0.0.9 --outdir "$1") >&2
  dpkg-deb -R "$1/nodewarden_0.0.9-1_all.deb" "$1/tree"
  echo '# of an older version' >> "$1/tree/etc/nodewarden/config.yaml"
  dpkg-deb --root-owner-group -Zgzip -b "$1/tree" "$1/older.deb" >&2
  rm -r "$1/tree" "$1"/nodewarden_0.0.9*
  mv "$1"/nodewarden_*_all.deb "$1/nodewarden.deb"
  mv "$1"/nodewarden-node_*.deb "$1/nodewarden-node.deb"
  vm push "$1"/older.deb "$1"/nodewarden.deb "$1"/nodewarden-node.deb /opt/debs
}
APT='apt() { cd /opt/debs; DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confdef "$@" > /tmp/said 2>&1 < /dev/null && cat /tmp/said; }'
LEFT='left() { find / -xdev \( -path /opt -o -path /tmp -o -path /var/log -o -path /proc \) -prune -o -name "*nodewarden*" -print; find /run -name "*nodewarden*"; }'

debs=$(mktemp -d)
make_debs "$debs"
rm -r "$debs"
vm push "$LAB/load.pl" /opt/lab

in_guest 'deb: without a Node.js that is new enough it is refused, and says what is missing' '
  '"$APT"'; mv /usr/bin/node /opt/node
  fails apt install ./older.deb; cat /tmp/said; grep "nodejs (>= 20.19)" /tmp/said; test ! -e /usr/lib/nodewarden'
in_guest 'deb: with nodewarden-node it is installed, enabled and started, and says that it can evict nobody yet' '
  '"$APT"'; apt install ./older.deb ./nodewarden-node.deb; grep "can evict nobody yet" /tmp/said
  [ "$(systemctl is-enabled nodewarden)" = enabled ]; [ "$(systemctl is-active nodewarden)" = active ]
  [ "$(stat -c "%a %U %G" /run/nodewarden/nodewarden.sock)" = "660 root nodewarden" ]
  nodewarden status > /tmp/status; grep memory.available /tmp/status'
in_guest 'deb: with manifests the pod that outgrows its node is evicted' '
  printf "[Slice]\nMemoryMax=384M\nMemorySwapMax=0\n" > /run/systemd/system/lab.slice
  for unit in web:150 calm:20 eater:130; do
    printf "[Service]\nSlice=lab.slice\nRestart=always\nExecStart=/usr/bin/perl /opt/lab/load.pl \"memory ${unit#*:}\" stay\n" > "/run/systemd/system/lab-${unit%:*}.service"
  done
  systemctl daemon-reload; systemctl start lab-web lab-calm
  printf "apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\ncgroupRoot: /lab.slice\nevictionHard: { memory.available: 100Mi }\nshutdownGracePeriod: 20s\n" > /etc/nodewarden/config.yaml
  for pod in web:0 calm:1000; do
    printf "apiVersion: v1\nkind: Pod\nmetadata: { name: ${pod%:*}, annotations: { nodewarden.dev/systemd-unit: lab-${pod%:*}.service } }\nspec: { priority: ${pod#*:}, containers: [{ name: main }] }\n" > "/etc/nodewarden/pods.d/${pod%:*}.yaml"
  done
  systemctl restart nodewarden; pid=$(systemctl show -P MainPID lab-calm); echo "$pid" > /tmp/calm
  for i in $(seq 600); do [ "$(cat /proc/$pid/oom_score_adj)" != 1000 ] || break; sleep 0.2; done
  [ "$(cat /proc/$pid/oom_score_adj)" = 1000 ]
  systemctl start lab-eater
  for i in $(seq 300); do [ "$(systemctl is-active lab-web)" != inactive ] || break; sleep 0.2; done
  sleep 1; journalctl --no-pager --unit nodewarden --lines 20; fails systemctl is-active lab-web
  [ "$(systemctl show -P MainPID lab-calm)" = "$pid" ]'
in_guest 'deb: an upgrade restarts the agent, keeps the edited configuration, and stops and starts nobody else' '
  '"$APT"'; pid=$(systemctl show -P MainPID nodewarden); cp /etc/nodewarden/config.yaml /tmp/mine.yaml
  apt install ./nodewarden.deb
  cmp /tmp/mine.yaml /etc/nodewarden/config.yaml; test -e /etc/nodewarden/config.yaml.dpkg-dist
  [ "$(systemctl show -P MainPID nodewarden)" != "$pid" ]; [ "$(systemctl is-active nodewarden)" = active ]
  [ "$(systemctl show -P MainPID lab-calm)" = "$(cat /tmp/calm)" ]; fails systemctl is-active lab-web
  journalctl --sync; journalctl -u nodewarden -o cat > /tmp/log; fails grep -E "\"event\":\"(shutdown|phase)\"" /tmp/log'
in_guest 'deb: it reloads and keeps its process; an agent that somebody stopped is not started by an upgrade' '
  '"$APT"'; pid=$(systemctl show -P MainPID nodewarden); systemctl reload nodewarden; sleep 1
  [ "$(systemctl show -P MainPID nodewarden)" = "$pid" ]; [ "$(systemctl is-active nodewarden)" = active ]
  systemctl stop nodewarden; apt install --reinstall ./nodewarden.deb
  grep "to start it: systemctl start nodewarden" /tmp/said; fails systemctl is-active nodewarden; systemctl start nodewarden'
in_guest 'deb: install.sh leaves a package alone' '
  fails /opt/nodewarden/install.sh --uninstall 2> /tmp/said; cat /tmp/said; grep "apt purge nodewarden" /tmp/said; nodewarden --version'
in_guest 'deb: removing it starts who is held down and restores oom_score_adj and the delay of logind, and keeps the record' '
  '"$APT"'; '"$GRANTS"'; grants 22000000; fails systemctl is-active lab-web
  apt remove nodewarden
  [ "$(systemctl is-active lab-web)" = active ]; grants 5000000
  [ "$(systemctl show -P MainPID lab-calm)" = "$(cat /tmp/calm)" ]; [ "$(cat /proc/$(cat /tmp/calm)/oom_score_adj)" = 0 ]
  test -e /etc/nodewarden/config.yaml; test -e /var/lib/nodewarden/record.jsonl; fails systemctl is-active nodewarden'
in_guest 'deb: after a purge nothing is left' '
  '"$APT"'; '"$LEFT"'; systemctl stop lab-eater lab-web lab-calm
  apt purge nodewarden nodewarden-node
  [ -z "$(left)" ] || { left; exit 1; }
  fails getent group nodewarden; fails systemctl cat nodewarden.service; [ "$(systemctl is-failed nodewarden)" != failed ]'
in_guest 'deb: it takes over from install.sh, with the configuration and the record' '
  '"$APT"'; '"$LEFT"'; /opt/nodewarden/install.sh --node /opt/node --start > /tmp/said
  echo "kind: List" > /etc/nodewarden/pods.d/mine.yaml; echo "# mine" >> /etc/nodewarden/config.yaml
  apt install ./nodewarden.deb ./nodewarden-node.deb; grep "goes by the manifests in /etc/nodewarden/pods.d" /tmp/said
  [ "$(tail -n 1 /etc/nodewarden/config.yaml)" = "# mine" ]; test ! -e /usr/lib/nodewarden/installed.sha256
  [ "$(systemctl is-active nodewarden)" = active ]
  apt purge nodewarden nodewarden-node; [ -z "$(left)" ] || { left; exit 1; }'
in_guest 'deb: with a package nodejs it runs a copy, which an update of that package renews, and which replaces nodewarden-node' '
  '"$APT"'; '"$LEFT"'
  nodejs_deb() { # VERSION
    mkdir -p /tmp/nodejs/DEBIAN /tmp/nodejs/usr/bin; cp /opt/node /tmp/nodejs/usr/bin/node; echo "$1" >> /tmp/nodejs/usr/bin/node
    printf "Package: nodejs\nVersion: $1\nArchitecture: all\nMaintainer: lab <lab@lab.example>\nDescription: lab\n" > /tmp/nodejs/DEBIAN/control
    dpkg-deb -Znone -b /tmp/nodejs "/opt/debs/nodejs-$1.deb"
  }
  is_copy() { cmp /usr/bin/node /usr/lib/nodewarden/node; [ "$(systemctl is-active nodewarden)" = active ]; [ "$(readlink "/proc/$(systemctl show -P MainPID nodewarden)/exe")" = /usr/lib/nodewarden/node ]; }
  nodejs_deb 20.19.0; nodejs_deb 20.20.0
  apt install ./nodejs-20.19.0.deb ./nodewarden.deb; is_copy; pid=$(systemctl show -P MainPID nodewarden)
  apt install ./nodejs-20.20.0.deb; is_copy; [ "$(systemctl show -P MainPID nodewarden)" != "$pid" ]
  apt install ./nodewarden-node.deb; fails cmp /usr/bin/node /usr/lib/nodewarden/node
  [ "$(systemctl is-active nodewarden)" = active ]; nodewarden status > /tmp/status
  apt remove nodewarden-node; is_copy
  apt purge nodewarden nodejs; [ -z "$(left)" ] || { left; exit 1; }; mv /opt/node /usr/bin/node'
