#!/usr/bin/env bash
# test.sh [--long] [TEST ARGUMENTS…]: builds everything, then runs the tests in a loopback-only network
# namespace, with a pinned Neovim and the pinned real agents at hand.
#   --long    runs the long tests (those marked `#[ignore = "long: …"]`) instead of the others
# What follows is given to the runner, for example `--test real_claude_smoke` or a part of a test's name.
#
# A real-agent test has no way to skip itself: it panics where its agent is not given, and whatever
# the runner skips is counted in the last line.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"
cd "$root"

long=
if [[ ${1:-} == --long ]]; then
  long=1
  shift
fi

MADO_TEST_NVIM=$("$root/scripts/neovim.sh")
agents=$("$root/scripts/agents.sh")
# shellcheck disable=SC2163 # Every line is NAME=value.
while IFS= read -r line; do export "${line?}"; done <<<"$agents"
export MADO_TEST_NVIM

# Everything that may need the network happens here, before the namespace is entered.
need cargo "install Rust (see rust-version in Cargo.toml)"
if cargo nextest --version >/dev/null 2>&1; then
  runner=(cargo nextest run)
  if [[ -n $long ]]; then runner+=(--profile long --run-ignored only); fi
  runner+=("$@")
else
  runner=(cargo test --no-fail-fast "$@")
  if [[ -n $long ]]; then runner+=(-- --ignored); fi
fi
# The tests start the built `mado` themselves, so the programs are built too.
step "build" cargo build --quiet --all-targets --locked

# The same text encoding everywhere; and a user's own settings must not reach the tests.
export LC_ALL=C.UTF-8 CARGO_NET_OFFLINE=true
# A failing wait panics with the screen it saw; the backtrace of the async runtime only hides that.
export RUST_BACKTRACE=${MADO_TEST_BACKTRACE:-0}
# The same generated cases in every run, so that a change is judged by itself and not by its luck.
# PROPTEST_CASES asks for a hunt: that many cases, new ones each time.
if [[ -z ${PROPTEST_CASES:-} ]]; then export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1835099247}; fi
unset MADO_STATE_DIR MADO_RUNTIME_DIR MADO_CONFIG MADO_HOME MADO_BIN MADO_TIMING MADO_TRACE \
  MADO_CRASH_AT MADO_AGENT_ID NVIM TMUX CLAUDE_CONFIG_DIR CODEX_HOME

log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { "$root/scripts/netns.sh" "${runner[@]}" 2>&1 | tee "$log"; }
status=0
run || status=$?

# One closing line whatever the runner: the sum over nextest's summary, or over all of
# libtest's results.
sed 's/\x1b\[[0-9;]*m//g' "$log" | awk -v runner="${runner[1]}" '
  runner == "nextest" ? /^ *Summary \[.*tests? run: / : /^test result: / {
    seen = 1
    gsub(/[,;:]/, " ")
    for (i = 2; i <= NF; i++) {
      if ($i == "passed") passed += $(i - 1)
      if ($i == "failed" || $i == "timed") failed += $(i - 1)
      if ($i == "skipped" || $i == "ignored") skipped += $(i - 1)
    }
  }
  END {
    if (!seen) exit 1
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit passed == 0
  }
' || die "no test passed"
exit "$status"
