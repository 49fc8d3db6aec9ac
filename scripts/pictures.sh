#!/usr/bin/env bash
# pictures.sh: makes the README's pictures from a real run: the demo in Neovim, driven by keys in a
# tmux of its own, drawn as SVG. Only the times of day are replaced, so that the same screen is the
# same file. MADO_BIN names a built program to use instead of building one.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"
need tmux "install tmux"
need python3 "install Python 3"

rows=30 cols=112
work=$(mktemp -d /tmp/mado-pictures.XXXXXX)
tm() { env -u TMUX LC_ALL=C.UTF-8 tmux -u -S "$work/s" -f /dev/null "$@"; }
finish() {
  tm kill-server 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

if [[ -z ${MADO_BIN:-} ]]; then
  need cargo "install Rust (see rust-version in Cargo.toml)"
  cargo build --release --locked --manifest-path "$root/Cargo.toml" >&2
  MADO_BIN=${CARGO_TARGET_DIR:-$root/target}/release/mado
fi

# wait_for WHAT PATTERN: until the screen shows it.
wait_for() {
  local deadline=$((SECONDS + 60))
  until tm capture-pane -p | grep -qE -- "$2"; do
    ((SECONDS < deadline)) || die "never seen: $1"$'\n'"$(tm capture-pane -p)"
    sleep 0.1
  done
}

# wait_still: until nothing moves any more.
wait_still() {
  local before now
  now=$(tm capture-pane -e -p)
  until [[ $now == "${before:-}" ]]; do
    before=$now
    sleep 1.5
    now=$(tm capture-pane -e -p)
  done
}

# picture NAME TITLE: draws what is on the screen.
picture() {
  local drawn=$work/$1.svg x y
  read -r x y < <(tm display -p '#{cursor_x} #{cursor_y}')
  tm capture-pane -e -N -p | sed -E 's/[0-9]{2}:[0-9]{2}:[0-9]{2}/14:20:07/g' |
    python3 "$root/scripts/screen2svg.py" "$cols" "$rows" "$2" "$x" "$y" >"$drawn"
  mkdir -p "$root/doc/pictures"
  mv "$drawn" "$root/doc/pictures/$1.svg"
  say "made doc/pictures/$1.svg"
}

tm start-server \; set -g status off \; set -s escape-time 0 \; \
  set -g default-terminal tmux-256color \; \
  new-session -d -x "$cols" -y "$rows" -- \
  env -u TMUX TERM=tmux-256color COLORTERM=truecolor LANG=C.UTF-8 MADO_BIN="$MADO_BIN" "$root/scripts/demo.sh"

wait_for "two idle agents" '\? for shortcuts.*\? for shortcuts'
tm send-keys -l 'Plan the change that adds a dark mode.'
wait_for "the draft" '❯ Plan the change'
tm send-keys Enter
wait_for "the answer at the right" '● I read [0-9]+ lines'
tm send-keys M-l
wait_for "the hop in the log" 'planner → reviewer  answered'
# Three rows are enough for one hop; then back into the agent.
tm send-keys z 3 Enter C-w t i
wait_for "terminal mode" '-- TERMINAL --'
wait_still
picture demo "mado.nvim: two agents, one routed into the other"
tm send-keys M-q
