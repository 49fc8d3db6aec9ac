#!/usr/bin/env bash
# Two connected demo agents in Neovim, without an account and without a network. Everything that it
# makes lies in a temporary folder and goes with it, the host and its agents included.
#   --headless   plays the person too: prints the hops as JSON lines, and succeeds only if the
#                route's hop was answered
# MADO_BIN names a built program to use instead of building one.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

headless=
case ${1:-} in
  '') ;;
  --headless) headless=1 ;;
  *) die "usage: demo.sh [--headless]" ;;
esac

nvim=$("$root/scripts/neovim.sh")
if [[ -z ${MADO_BIN:-} ]]; then
  need cargo "install Rust (see rust-version in Cargo.toml)"
  say "building mado (the first time takes a few minutes)"
  cargo build --release --locked --manifest-path "$root/Cargo.toml" >&2
  MADO_BIN=${CARGO_TARGET_DIR:-$root/target}/release/mado
fi

# The socket's path must be short, so the folder is made where temporary files usually are.
dir=$(mktemp -d /tmp/mado-demo.XXXXXX)
finish() {
  "$MADO_BIN" stop >/dev/null 2>&1 || say "the demo's host could not be ended"
  rm -rf "$dir"
}
trap finish EXIT
mkdir "$dir/demo"
cd "$dir/demo"

export MADO_BIN MADO_STATE_DIR=$dir/state MADO_RUNTIME_DIR=$dir/run MADO_CONFIG=$dir/config
# Neovim's own files, and a user's own settings, stay out of it.
export XDG_STATE_HOME=$dir/nvim XDG_DATA_HOME=$dir/nvim XDG_CACHE_HOME=$dir/nvim
unset NVIM MADO_HOME MADO_TIMING MADO_TRACE MADO_CRASH_AT

args=(--clean --cmd "set runtimepath^=$root" -c "luafile $root/scripts/demo.lua")
if [[ -n $headless ]]; then
  status=0
  MADO_DEMO_HEADLESS=1 "$nvim" --headless "${args[@]}" >&2 || status=$?
  "$MADO_BIN" log --json
  exit "$status"
fi
"$nvim" "${args[@]}"
