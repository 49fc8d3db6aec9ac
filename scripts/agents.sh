#!/usr/bin/env bash
# Installs the pinned real agents that the tests drive, each version under a folder of its own, and
# prints the paths of their native programs as NAME=path lines, ready for `export`.
# Nothing global is touched, and no install script of a package runs: the native program ships
# inside a platform package.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

case $(uname -s)-$(uname -m) in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  *) die "the real-agent tests run on Linux (x86_64, aarch64), not on $(uname -sm)" ;;
esac

fill_current() { npm_install "$CLAUDE_NPM" "$CLAUDE_VERSION" "$1"; }
fill_old() { npm_install "$CLAUDE_NPM" "$CLAUDE_OLD_VERSION" "$1"; }

# claude NAME VERSION FILL
claude() {
  provide "claude-code-$2" "$3"
  local path=$cache/claude-code-$2/node_modules/$CLAUDE_NPM-$platform/claude
  [[ -x $path ]] || die "$path is missing: delete $cache/claude-code-$2 and run this again"
  printf '%s=%s\n' "$1" "$path"
}

claude MADO_TEST_CLAUDE "$CLAUDE_VERSION" fill_current
claude MADO_TEST_CLAUDE_OLD "$CLAUDE_OLD_VERSION" fill_old
