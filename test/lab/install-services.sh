# shellcheck shell=bash disable=SC2016,SC2034 # the scripts expand where they run
# Sourced by the parts of test/lab/install that play docs/quick-start.md: beside which services, and what happens to them.
SERVICES='service() { printf "[Service]\nExecStart=/usr/bin/perl /opt/lab/%s\n[Install]\nWantedBy=multi-user.target\n" "$2" > "/etc/systemd/system/$1.service"; }
  service nginx "load.pl \"memory 20\" stay"; service postgresql@15-main "shutdown-pod.pl postgresql 1"
  service reports "load.pl \"memory 40\" stay"
  systemctl daemon-reload; systemctl --quiet enable --now nginx postgresql@15-main reports'
# leak [MIB]  a process of reports grows until the agent counts so many MiB as available, or until it is stopped
LEAK='leak() {
    available=$(nodewarden status | sed -n "s/.*by what could be freed \([0-9]*\).*/\1/p")
    perl /opt/lab/load.pl "enter /sys/fs/cgroup/system.slice/reports.service" "grow $((available - ${1:-0})) 50" "sleep 10"
  }
'
PAGE=$ROOT/docs/quick-start.md
# The sections that lead from nothing to a protected machine.
PROTECTING='1 2 3 4 6 7'
# page OPTIONS NUMBER... -- COMMAND...  plays sections of it (see page.ts)
page() { (cd "$ROOT" && node --import tsx test/lab/page.ts "$@" 2>&1); }
took() { sed -n 's/^took \(.*\) s$/\1/p' "$1"; }
