# shellcheck shell=bash
# Shared by the scripts beside it (source it, do not run it): where pinned tools live, how one is
# installed exactly once, and how a step reports what it cost.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/versions.env
source "$root/scripts/versions.env"

# Tools are kept outside the repository so that clones and worktrees share them.
cache=${MADO_DEV_CACHE:-${HOME:?HOME must be set, or MADO_DEV_CACHE}/.cache/mado-dev}

# Standard output belongs to what a script prints for its caller; people read standard error.
say() { printf '%s\n' "$*" >&2; }
die() {
  say "${0##*/}: $*"
  exit 1
}

# need PROGRAM REMEDY: fails with the remedy where the program is missing.
need() { command -v "$1" >/dev/null || die "$1 is not installed: $2"; }

# provide KEY FUNCTION: makes sure that the folder $cache/KEY exists. FUNCTION gets an empty folder
# to fill; the folder is renamed into place only when it succeeded, so a half install is never
# seen, and parallel runs wait for each other instead of installing twice.
provide() {
  local dir=$cache/$1 fill=$2 tmp
  if [[ -d $dir ]]; then return; fi
  need flock "install util-linux"
  mkdir -p "$cache"
  (
    flock 9
    if [[ -d $dir ]]; then exit; fi
    tmp=$(mktemp -d "$cache/.install.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    say "installing $1 into $cache"
    "$fill" "$tmp"
    chmod 755 "$tmp"
    mv -T "$tmp" "$dir"
  ) 9>"$cache/.lock"
}

# npm_install PACKAGE VERSION DIR: into a folder of its own, without running the package's scripts.
npm_install() {
  need npm "install Node.js with npm (Debian: npm)"
  npm install --prefix "$3" --ignore-scripts --no-audit --no-fund --no-save --loglevel error \
    "$1@$2" >/dev/null || die "npm could not install $1 $2"
}

# step NAME COMMAND…: runs a step, tells its duration, and ends the script where it failed. The step runs
# in a subshell that is no condition of anything, since bash switches `set -e` off inside conditions.
step() {
  local name=$1 start=$EPOCHREALTIME status us seconds
  shift
  say "── $name"
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  us=$((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}))
  seconds=$(printf '%d.%d s' $((us / 1000000)) $((us / 100000 % 10)))
  if ((status)); then
    say "── $name: FAILED after $seconds (exit code $status)"
    exit "$status"
  fi
  say "── $name: ok, $seconds"
}
