#!/bin/sh
# Installs nodewarden on a host with systemd: from an unpacked release, or from a checkout after `npm run build`.
# Needs no compiler, no npm and no network. Run it again to upgrade; see --help.
set -eu

LIB=/usr/lib/nodewarden
BIN=/usr/bin/nodewarden
UNITS=/usr/lib/systemd/system
ETC=/etc/nodewarden
SHARE=/usr/share/nodewarden
STATE=/var/lib/nodewarden
RUNTIME=/run/nodewarden
GROUP=nodewarden
GUARD_UNIT=$UNITS/nodewarden-guard.service
GUARD_USER=nodewarden-guard
GUARD_SECRETS=$ETC/guard-secrets
# sha256sum lines of the installed files: at uninstall, a file that differs was changed by the user, and stays.
SUMS=$LIB/installed.sha256
ORDER=$UNITS/nodewarden.service.d/20-standalone-order.conf
NO_REALTIME=$UNITS/nodewarden.service.d/50-no-realtime.conf
# Man pages and completions: the file in dist/, and where it is installed. zsh uses another directory on Debian.
if command -v dpkg >/dev/null; then zsh=vendor-completions; else zsh=site-functions; fi
PAGES="man/nodewarden.1:/usr/share/man/man1/nodewarden.1
man/nodewarden.5:/usr/share/man/man5/nodewarden.5
man/nodewarden-guard.5:/usr/share/man/man5/nodewarden-guard.5
completion/nodewarden:/usr/share/bash-completion/completions/nodewarden
completion/_nodewarden:/usr/share/zsh/$zsh/_nodewarden
completion/nodewarden.fish:/usr/share/fish/vendor_completions.d/nodewarden.fish"
MIN_MAJOR=20
MIN_MINOR=19

HERE=$(cd "$(dirname "$0")" && pwd)
dry=no
start=no
guard=no
what=install
node=
changed=no

usage() {
  cat <<USAGE
usage: ./install.sh [--start] [--guard] [--node PATH] [--dry-run]
       ./install.sh --uninstall [--dry-run]

  --start      also start the service (it is enabled in any case)
  --guard      also install nodewarden-guard.service, which fences dead machines of a cluster. It needs the agents of
               the package fence-agents, and does not start before $ETC/guard.yaml exists
  --node PATH  the Node.js to use, $MIN_MAJOR.$MIN_MINOR or newer; default: node in PATH
  --uninstall  stop nodewarden (which stops no pod), start the units that an eviction still holds down, restore logind's
               earlier delay, and remove everything that you did not change
  --dry-run    print what would be done, and change nothing

Installs the program into $LIB, the command $BIN, nodewarden.service with a drop-in that orders it, nodewarden.slice,
$ETC/config.yaml (unless it exists), its schema, $ETC/pods.d, man pages, completions, and examples
and scenarios into $SHARE. A second run changes nothing.
USAGE
}

say() { printf '%s\n' "$*"; }
refuse() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

# act COMMAND...  runs the command; in a dry run, only prints it
act() {
  if [ "$dry" = yes ]; then say "would run: $*"; else "$@"; fi
}

# put SOURCE TARGET MODE  installs a file unless it is up to date; by rename, since the target may be a running node
put() {
  if cmp -s "$1" "$2" && [ "$(stat -c %a "$2")" = "$3" ]; then return 0; fi
  changed=yes
  if [ "$dry" = yes ]; then
    say "would install: $2"
    return 0
  fi
  mkdir -p "$(dirname "$2")"
  cp "$1" "$2.new"
  chmod "$3" "$2.new"
  mv -f "$2.new" "$2"
  say "installed: $2"
}

need_host() {
  if [ ! -d /run/systemd/system ] || ! command -v systemctl >/dev/null; then
    refuse "this host is not running systemd (no /run/systemd/system), and this script installs a systemd service. Without systemd, run the agent under your own supervisor: node dist/nodewarden.js run"
  fi
  case $(dpkg-query --show --showformat '${db:Status-Status}' nodewarden 2>/dev/null || true) in
    '' | not-installed | config-files) ;;
    *) refuse "nodewarden is installed as a Debian package: upgrade it with apt, or remove it with apt purge nodewarden" ;;
  esac
  if [ "$dry" = no ] && [ "$(id -u)" != 0 ]; then refuse "must run as root; --dry-run shows what it would do"; fi
}

need_node() {
  if [ -z "$node" ]; then
    node=$(command -v node || true)
    [ -n "$node" ] || refuse "there is no node in PATH. Install Node.js $MIN_MAJOR.$MIN_MINOR or newer, or name one: --node /path/to/node"
  fi
  version=$("$node" --version 2>/dev/null || true)
  major=${version#v}
  major=${major%%.*}
  minor=${version#v*.}
  minor=${minor%%.*}
  case $major.$minor in
    *[!0-9.]* | .* | *.) refuse "$node does not run or is not Node.js: it reports the version \"$version\"" ;;
  esac
  if [ "$major" -lt $MIN_MAJOR ] || { [ "$major" -eq $MIN_MAJOR ] && [ "$minor" -lt $MIN_MINOR ]; }; then
    refuse "$node is Node.js $version; nodewarden needs $MIN_MAJOR.$MIN_MINOR or newer. Install a newer one, or name one: --node /path/to/node"
  fi
  node=$(readlink -f "$node")
}

need_bundle() {
  [ -f "$HERE/dist/nodewarden.js" ] || refuse "$HERE/dist/nodewarden.js is missing: in a checkout, run npm ci && npm run build first"
}

# runs_copied  true if a copy of node runs; some find their libraries relative to their own path
runs_copied() {
  cmp -s "$node" "$LIB/node" && [ ! -L "$LIB/node" ] && "$LIB/node" --version >/dev/null 2>&1 && return 0
  mkdir -p "$LIB"
  cp "$node" "$LIB/node.try"
  chmod 755 "$LIB/node.try"
  tried=0
  "$LIB/node.try" --version >/dev/null 2>&1 || tried=1
  rm -f "$LIB/node.try"
  rmdir "$LIB" 2>/dev/null || true
  return $tried
}

# is_roots PATH  true if only root can change what the path leads to; otherwise `weak` is the part that others can change
is_roots() {
  weak=$1
  while :; do
    [ "$(stat -c %u "$weak")" = 0 ] && [ -z "$(find "$weak" -maxdepth 0 -perm /022)" ] || return 1
    [ "$weak" != / ] || return 0
    weak=$(dirname "$weak")
  done
}

install_node() {
  # See ExecStart in nodewarden.service for why it is copied.
  if [ "$dry" = yes ] || runs_copied; then
    if [ "$dry" = no ] && [ -L "$LIB/node" ]; then rm -f "$LIB/node"; fi
    put "$node" "$LIB/node" 755
    # Drop it from the page cache. Otherwise its pages stay charged to this shell, not to the unit that reads them next.
    act dd if="$LIB/node" iflag=nocache count=0 status=none
    return 0
  fi
  is_roots "$node" || refuse "$node does not run when copied, so the service would run it in place, but users other than root can change $weak. Install a Node.js that belongs to root, or name one: --node /path/to/node"
  [ "$(readlink "$LIB/node" 2>/dev/null)" = "$node" ] && return 0
  changed=yes
  mkdir -p "$LIB"
  ln -sf "$node" "$LIB/node"
  say "note: $node does not run when copied, so $LIB/node links to it"
}

install_program() {
  install_node
  for file in "$HERE"/dist/*; do
    [ -f "$file" ] || continue
    case $file in
      *.tmp) ;;
      */nodewarden.js) put "$file" "$LIB/nodewarden.js" 755 ;;
      *) put "$file" "$LIB/$(basename "$file")" 644 ;;
    esac
  done
  put "$HERE/LICENSE" "$LIB/LICENSE" 644
  put "$HERE/bin/nodewarden" $BIN 755
  put "$HERE/systemd/settle-realtime" $LIB/settle-realtime 755
  put "$HERE/systemd/nodewarden.service" $UNITS/nodewarden.service 644
  put "$HERE/systemd/nodewarden.slice" $UNITS/nodewarden.slice 644
  put "$HERE/systemd/nodewarden.service.d/20-standalone-order.conf" $ORDER 644
}

# The schema of the configuration, and the examples that README.md and --help name.
install_examples() {
  put "$HERE/scripts/node-kubeconfig" "$SHARE/node-kubeconfig" 755
  for source in "$HERE"/config/* "$HERE"/config/*/* "$HERE"/config/*/*/*; do
    [ ! -f "$source" ] || put "$source" "$SHARE/${source#"$HERE"/config/}" 644
  done
}

install_pages() {
  for page in $PAGES; do put "$HERE/dist/${page%%:*}" "${page#*:}" 644; done
}

installed_pages() { for page in $PAGES; do echo "${page#*:}"; done; }

install_configuration() {
  if ! getent group $GROUP >/dev/null; then
    act groupadd --system $GROUP
    changed=yes
  fi
  for directory in $ETC $ETC/pods.d; do
    [ -d "$directory" ] || act mkdir -p "$directory"
  done
  # Where 0.1.0 put it.
  remove_file $ETC/schema.json
  if [ -e $ETC/config.yaml ]; then
    say "kept: $ETC/config.yaml already exists"
  else
    put "$HERE/config/config.yaml" $ETC/config.yaml 644
    own_config=yes
  fi
}

# The guard's service; an upgrade renews it where it is installed.
install_guard() {
  [ "$guard" = yes ] || [ -e $GUARD_UNIT ] || return 0
  if ! getent passwd $GUARD_USER >/dev/null; then
    act useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin $GUARD_USER
    changed=yes
  fi
  put "$HERE/systemd/nodewarden-guard.service" $GUARD_UNIT 644
  [ -d $GUARD_SECRETS ] || act install -d -m 750 -o root -g $GUARD_USER $GUARD_SECRETS
}

# Lists programs with their current sums, and the configuration only if this script wrote it, with the sum it had then.
write_sums() {
  [ "$dry" = no ] || return 0
  sums=$(mktemp)
  if [ "${own_config:-no}" = yes ]; then
    sha256sum $ETC/config.yaml >"$sums"
  elif [ -f $SUMS ]; then
    grep " $ETC/config.yaml$" $SUMS >"$sums" || true
  fi
  for file in "$LIB"/* "$SHARE"/* "$SHARE"/*/* "$SHARE"/*/*/* $(installed_pages); do
    if [ -f "$file" ] && [ "$file" != $SUMS ]; then sha256sum "$file" >>"$sums"; fi
  done
  sha256sum $BIN $UNITS/nodewarden.service $UNITS/nodewarden.slice $ORDER >>"$sums"
  [ ! -e $GUARD_UNIT ] || sha256sum $GUARD_UNIT >>"$sums"
  cmp -s "$sums" $SUMS || cp "$sums" $SUMS
  chmod 644 $SUMS
  rm -f "$sums"
}

settle_realtime() {
  [ "$dry" = no ] || return 0
  before=$(cat $NO_REALTIME 2>/dev/null || true)
  $LIB/settle-realtime
  [ "$before" = "$(cat $NO_REALTIME 2>/dev/null || true)" ] || changed=yes
}

# start_service VERB  starts or restarts it. The service starts after everything else in the boot (see the drop-in that
# orders it), so an installation that is part of the boot would wait for itself.
start_service() {
  case $(systemctl is-system-running 2>/dev/null || true) in
    initializing | starting)
      act systemctl --no-block "$1" nodewarden.service
      say "note: the machine is still starting; nodewarden starts last"
      ;;
    *) act systemctl "$1" nodewarden.service ;;
  esac
}

install_all() {
  need_host
  need_node
  need_bundle
  say "installing with Node.js $version from $node"
  install_program
  install_examples
  install_pages
  install_configuration
  install_guard
  write_sums
  if [ "$changed" = yes ]; then act systemctl daemon-reload; fi
  settle_realtime
  act systemctl --quiet enable nodewarden.service
  if [ "$guard" = yes ]; then act systemctl --quiet enable nodewarden-guard.service; fi
  # One that somebody has stopped stays stopped.
  if [ "$changed" = yes ]; then act systemctl try-restart nodewarden-guard.service 2>/dev/null || true; fi
  if [ "$start" = yes ]; then
    if [ "$changed" = yes ]; then start_service restart; else start_service start; fi
  elif [ "$changed" = yes ] && systemctl --quiet is-active nodewarden.service; then
    start_service restart
    say "restarted: it was running"
  fi
  if [ "$changed" = no ]; then say "nothing to change"; fi
  if ! systemctl --quiet is-active nodewarden.service; then
    say "describe your services in $ETC/pods.d, then: systemctl start nodewarden"
  fi
  if [ "$guard" = yes ] && [ ! -e $ETC/guard.yaml ]; then
    say "describe your devices in $ETC/guard.yaml (example: $SHARE/guard.yaml), then: systemctl start nodewarden-guard"
  fi
  say "next: nodewarden doctor shows what is in the way, and what to do about it"
}

# is_ours FILE  true if the file is unchanged since it was installed
is_ours() {
  [ -f $SUMS ] && grep -qxF "$(sha256sum "$1")" $SUMS
}

remove_file() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  if is_ours "$1"; then act rm -f "$1"; else say "kept: $1 has changed since it was installed"; fi
}

uninstall_all() {
  need_host
  # In any state: a service that keeps failing is restarted again and again, and is not "active".
  act systemctl stop nodewarden.service nodewarden-guard.service 2>/dev/null || true
  if [ -x $BIN ]; then
    act $BIN release-held || say "note: not everything that nodewarden changed could be restored, see above; also see: systemctl --failed and systemctl list-units --state=inactive"
  fi
  for unit in nodewarden nodewarden-guard; do act systemctl --quiet disable $unit.service 2>/dev/null || true; done
  for file in $BIN $GUARD_UNIT $UNITS/nodewarden.service $UNITS/nodewarden.slice $ORDER $ETC/config.yaml "$LIB"/* "$SHARE"/* "$SHARE"/*/* "$SHARE"/*/*/* $(installed_pages); do
    if [ ! -d "$file" ] && [ "$file" != $SUMS ]; then remove_file "$file"; fi
  done
  act rm -f $SUMS $NO_REALTIME
  act rm -rf $STATE $RUNTIME $STATE-guard $RUNTIME-guard
  for directory in $GUARD_SECRETS $UNITS/nodewarden.service.d $ETC/pods.d $ETC $LIB "$SHARE"/*/*/ "$SHARE"/*/ $SHARE; do
    if [ ! -d "$directory" ]; then continue; fi
    if [ "$dry" = yes ]; then
      say "would remove if empty: $directory"
    elif ! rmdir "$directory" 2>/dev/null; then
      say "kept: $directory is not empty"
    fi
  done
  if getent passwd $GUARD_USER >/dev/null; then act userdel $GUARD_USER; fi
  members=$(getent group $GROUP | cut -d: -f4)
  if [ -n "$members" ]; then
    say "kept: group $GROUP has members: $members"
  elif getent group $GROUP >/dev/null; then
    act groupdel $GROUP
  fi
  act systemctl daemon-reload
  act systemctl reset-failed nodewarden.service nodewarden-guard.service 2>/dev/null || true
  if [ "$dry" = no ]; then say "nodewarden is uninstalled"; fi
}

while [ $# -gt 0 ]; do
  case $1 in
    --start) start=yes ;;
    --guard) guard=yes ;;
    --dry-run) dry=yes ;;
    --uninstall) what=uninstall ;;
    --node)
      [ $# -ge 2 ] || refuse "--node needs a path"
      node=$2
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      usage >&2
      refuse "unknown option $1"
      ;;
  esac
  shift
done
[ $what = install ] || [ "$start$guard" = nono ] || refuse "--uninstall takes neither --start nor --guard"
if [ $what = install ]; then install_all; else uninstall_all; fi
