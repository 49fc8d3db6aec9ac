#!/usr/bin/env bash
# record.sh FOLDER [COMMAND…]: runs a command (`claude` unless told otherwise) in this terminal as
# the tests run a real agent, without a network and against the scripted model, and records what it
# writes. FOLDER gets `output` (the bytes), `timing` (of util-linux `script`: seconds and bytes per
# chunk) and `about` (the command, its version, the terminal's size), from which the session can be replayed.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

folder=${1:?usage: record.sh FOLDER [COMMAND…]}
shift
if ((!$#)); then set -- claude; fi
[[ -t 0 && -t 1 ]] || die "recording needs a terminal (tmux will do)"
need script "install util-linux"
need cargo "install Rust (see rust-version in Cargo.toml)"

agents=$("$root/scripts/agents.sh")
# shellcheck disable=SC2163 # Every line is NAME=value.
while IFS= read -r line; do export "$line"; done <<<"$agents"
cargo build --quiet --locked --manifest-path "$root/Cargo.toml" --example mock
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
read -r rows cols < <(stty size)
printf 'command %s\nversion %s\nrows %d\ncols %d\n' "$*" \
  "$("$MADO_TEST_CLAUDE" --version)" "$rows" "$cols" >"$folder/about"

# A folder of its own, so that nothing of this one is in the recording.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$root/scripts/netns.sh" "$root/target/debug/examples/mock" \
  script --quiet --return --log-out "$folder/output" --log-timing "$folder/timing" \
  --command "$(printf '%q ' "$@")"
# `script` frames its log with two lines of its own.
sed -i -e '1{/^Script started on /d}' -e '${/^Script done on /d}' "$folder/output"
say "recorded into $folder"
