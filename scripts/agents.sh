#!/usr/bin/env bash
# Installs the pinned real agents that the tests drive, each version under a folder of its own, and
# prints the paths of their native programs as NAME=path lines, ready for `export`.
# Nothing global is touched, and no install script of a package runs: the native program ships
# inside a platform package.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

case $(uname -s)-$(uname -m) in
  Linux-x86_64) platform=linux-x64 triple=x86_64-unknown-linux-musl ;;
  Linux-aarch64) platform=linux-arm64 triple=aarch64-unknown-linux-musl ;;
  *) die "the real-agent tests run on Linux (x86_64, aarch64), not on $(uname -sm)" ;;
esac

fill_current() { npm_install "$CLAUDE_NPM" "$CLAUDE_VERSION" "$1"; }
fill_old() { npm_install "$CLAUDE_NPM" "$CLAUDE_OLD_VERSION" "$1"; }

fill_opencode() { npm_install "opencode-$platform" "$OPENCODE_VERSION" "$1"; }
fill_codex() { npm_install "$CODEX_NPM" "$CODEX_VERSION" "$1"; }

# agent NAME FOLDER FILL PROGRAM: installs into the cache's FOLDER, where PROGRAM is the native program.
agent() {
  provide "$2" "$3"
  local path=$cache/$2/node_modules/$4
  [[ -x $path ]] || die "$path is missing: delete $cache/$2 and run this again"
  printf '%s=%s\n' "$1" "$path"
}

claude=$CLAUDE_NPM-$platform/claude
agent MADO_TEST_CLAUDE "claude-code-$CLAUDE_VERSION" fill_current "$claude"
agent MADO_TEST_CLAUDE_OLD "claude-code-$CLAUDE_OLD_VERSION" fill_old "$claude"
agent MADO_TEST_CODEX "codex-$CODEX_VERSION" fill_codex \
  "$CODEX_NPM-$platform/vendor/$triple/bin/codex"
# The program lies in the platform's package; the other brings only a launcher for Node.js.
agent MADO_TEST_OPENCODE "opencode-$OPENCODE_VERSION" fill_opencode "opencode-$platform/bin/opencode"
