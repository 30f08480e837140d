# shellcheck shell=bash
# Sourced by the two parts of the shutdown lab: the workloads with their plan, what runs inside to make and ask them, and
# the reading of the journal.
#
# The plan, in ms after the request. `stuck` never ends and is killed at the deadline of its phase; `other` is no pod, and
# systemd stops it when the lock is gone; `idle` is a pod that does not run.
#   phase 1 (priority 0, 3 s):     0 web and stuck told, 1000 web ends, 3000 stuck killed
#   phase 2 (1000, 3 s):           3000 db told, 4500 db ends
#   phase 3 (2000000000, 2 s):     4500 dns told, 5000 dns ends, the lock is released
# In all 8 s, and 10 s are asked of logind.
ASKED_MS=10000
PLAN='web told 0
stuck told 0
stuck killed 3000
db told 3000
dns told 4500
agent released 5000'
# How long others on this machine kept everything here waiting, by which all of it may be late.
waited_ms=0
PODS=(web:0:1 stuck:10:never db:1000:1.5 dns:2000000000:0.5 idle:0:1)

# A unit that hangs although it is told does not delay the end of a check.
scene() { # the script that makes all of it, for a system in which nodewarden is installed
  local pod name priority seconds
  cat <<'SCENE'
set -eu
mkdir -p /etc/nodewarden/pods.d
cat > /opt/lab/config.yaml <<CONFIG
apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
shutdownGracePeriodByPodPriority:
- { priority: 0, shutdownGracePeriodSeconds: 3 }
- { priority: 1000, shutdownGracePeriodSeconds: 3 }
- { priority: 2000000000, shutdownGracePeriodSeconds: 2 }
CONFIG
unit() {
  cat > "/etc/systemd/system/$1.service" <<UNIT
[Service]
ExecStart=/usr/bin/perl /opt/lab/shutdown-pod.pl $1 $2
SyslogIdentifier=lab-pod
TimeoutStopSec=6s
[Install]
WantedBy=multi-user.target
UNIT
}
pod() {
  unit "$1" "$3"
  printf 'apiVersion: v1\nkind: Pod\nmetadata: { name: %s, annotations: { nodewarden.dev/systemd-unit: %s.service } }\nspec: { priority: %s, containers: [{ name: main }] }\n' "$1" "$1" "$2" > "/etc/nodewarden/pods.d/$1.yaml"
}
unit other 0.1
SCENE
  for pod in "${PODS[@]}"; do
    IFS=: read -r name priority seconds <<<"$pod"
    echo "pod $name $priority $seconds"
  done
  echo 'systemctl -q enable other web stuck db dns
systemctl daemon-reload'
}

# timeline  journal lines (-o short-unix) on standard input to "MS WHO WHAT..." since the last word "go" of the lab, or
# without it since logind announced the shutdown, or the stop of the agent:
#   NAME runs|told|ends PID [N], NAME started|stopped|killed, agent EVENT TEXT, machine down, logind TEXT
timeline() {
  awk '
    $3 ~ /^lab(\[|:)/ && $4 == "go" { go = $1 * 1000; down = 0; lines = 0; next }
    $3 ~ /^systemd-logind\[/ && (/ now!$/ || / (Powering off|Rebooting)\.\.\.$/) && !go { go = $1 * 1000 }
    $3 ~ /^systemd\[1\]/ && /: Stopping nodewarden.service/ && !go { go = $1 * 1000 }
    { line = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", line); what = ""; seconds = $1 }
    $3 ~ /^lab-pod\[/ && match($0, / @[0-9.]+$/) { seconds = substr($0, RSTART + 2); $0 = substr($0, 1, RSTART - 1) }
    $3 ~ /^lab-pod\[/ { what = $4 " " $6 " " $5 " " $7 }
    $3 ~ /^(node|nodewarden)\[/ && match(line, /"event":"[a-z-]+"/) {
      event = substr(line, RSTART + 9, RLENGTH - 10); text = ""
      if (match(line, /"msg":"([^"\\]|\\.)*"/)) text = substr(line, RSTART + 7, RLENGTH - 8)
      what = "agent " event " " text
    }
    $3 ~ /^systemd\[1\]/ && /service: Main process exited, code=killed, status=9/ { name = $4; sub(/\.service:/, "", name); what = name " killed" }
    $3 ~ /^systemd\[1\]/ && ($4 == "Started" || $4 == "Stopped") && $5 ~ /^[a-z]+\.service\.$/ { name = $5; sub(/\..*/, "", name); what = name " " tolower($4) }
    $3 ~ /^systemd-logind\[/ { what = "logind " line }
    # The lock is gone, or the time is over; or, past logind, systemd has begun to stop everything.
    go && !down && ($3 ~ /^systemd-logind\[/ && line ~ /^System is (powering down|rebooting|halting)/ || $3 ~ /^systemd\[1\]/ && line ~ /^Stopped target multi-user/) { what = "machine down"; down = 1 }
    what != "" && go { said[++lines] = sprintf("%.0f %s", seconds * 1000 - go, what) }
    END { for (i = 1; i <= lines; i++) print said[i] }'
}

# at FILE WHO WHAT  when it was first, in ms after the request; nothing when it never was
at() { awk -v who="$2" -v what="$3" '$2 == who && $3 == what { print $1; exit }' "$1"; }
# figure NAME VALUE  for the last line of the lab
figure() { echo "figure ${FIGURE:-}$1 $2"; }
fail() { echo "$*"; exit 1; }

# in_time FILE TOLERANCE_MS  every step of PLAN (WHO WHAT MS [WHO WHAT of the step after which it counts]) at its time,
# within the tolerance or a tenth
# plan_holds FILE TOLERANCE_MS RELEASE_MS  all of it, and the lock released so soon after the last pod
plan_holds() {
  local file=$1 last released
  in_time "$file" "$2"
  last=$(at "$file" dns ends); [ -n "$last" ] || fail "dns, told after $(at "$file" dns told) ms, never ended: it was stopped after $(at "$file" dns stopped) ms"
  released=$(at "$file" agent released)
  [ $((released - last)) -le $(($3 + waited_ms)) ] || fail "released $((released - last)) ms after the last pod"
  [ "$(at "$file" other told)" -ge "$released" ] || fail 'the unit that is no pod was told before the lock was released'
  nobody_told_twice "$file"; waited_no_longer "$file"
  figure 'release after the last pod ms' $((released - last))
}
in_time() {
  local who what wanted after got off worst=0
  while read -r who what wanted after; do
    got=$(at "$1" "$who" "$what")
    [ -n "$got" ] || fail "$who: never $what"
    # shellcheck disable=SC2086 # two words
    if [ -n "$after" ]; then got=$((got - $(at "$1" $after))); fi
    off=$((got > wanted ? got - wanted : wanted - got))
    [ "$off" -le $(($2 + waited_ms)) ] || [ "$off" -le $((wanted / 10)) ] || fail "$who $what after $got ms, planned $wanted"
    worst=$((off > worst ? off : worst))
  done <<<"$PLAN"
  figure 'worst deviation of a phase ms' "$worst"
}
nobody_told_twice() { # a process; who was started again is another one
  local twice; twice=$(awk '$3 == "told" && $5 > 1' "$1")
  [ -z "$twice" ] || fail "told twice: $twice"
}
waited_no_longer() { # than all that was asked of logind, and a second
  local down; down=$(at "$1" machine down)
  [ -n "$down" ] || fail 'the machine never went down'
  [ "$down" -le $((ASKED_MS + 1000 + waited_ms)) ] || fail "the machine waited $down ms"
  figure 'longest wait of the machine ms' "$down"; FIGURE='' figure power-offs 1
}
