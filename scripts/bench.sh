#!/usr/bin/env bash
# bench.sh [--quick] [MEASURE…]: measures the host against Neovim's own terminal with a release build,
# and prints tables in Markdown; doc/benchmarks.md says what they mean. Without names: all measures.
# Real agents run in it, so it runs in a network namespace that has loopback alone, like the tests.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"
cd "$root"

MADO_TEST_NVIM=$("$root/scripts/neovim.sh")
agents=$("$root/scripts/agents.sh")
# shellcheck disable=SC2163 # Every line is NAME=value.
while IFS= read -r line; do export "$line"; done <<<"$agents"
export MADO_TEST_NVIM

need cargo "install Rust (see rust-version in Cargo.toml)"
build() { cargo bench --quiet --locked --bench mado --no-run; }
step "release build" build
export LC_ALL=C.UTF-8 CARGO_NET_OFFLINE=true
exec "$root/scripts/netns.sh" cargo bench --quiet --locked --bench mado -- "$@"
