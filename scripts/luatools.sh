#!/usr/bin/env bash
# Provides the Lua formatter and linter, and prints their paths as STYLUA=path and LUACHECK=path.
# stylua ships as a native program inside its npm package; luacheck comes from the distribution.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

case $(uname -s)-$(uname -m) in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  Darwin-x86_64) platform=darwin-x64 ;;
  Darwin-arm64) platform=darwin-arm64 ;;
  *) die "no stylua is packaged for $(uname -sm)" ;;
esac

fill_stylua() { npm_install "$STYLUA_NPM" "$STYLUA_VERSION" "$1"; }

# The package lists of a fresh machine are empty or old, so the first try may fail.
install_luacheck() {
  local get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  say "installing Debian's $LUACHECK_DEB"
  "${get[@]}" install -y --no-install-recommends "$LUACHECK_DEB" >/dev/null 2>&1 && return
  "${get[@]}" update >&2
  "${get[@]}" install -y --no-install-recommends "$LUACHECK_DEB" >/dev/null
}

provide "stylua-$STYLUA_VERSION" fill_stylua
stylua=$cache/stylua-$STYLUA_VERSION/node_modules/$STYLUA_NPM-$platform/stylua
[[ -x $stylua ]] || die "$stylua is missing: delete $cache/stylua-$STYLUA_VERSION and run this again"

if ! command -v luacheck >/dev/null; then
  if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    die "luacheck is not installed: install it (Debian: apt-get install $LUACHECK_DEB)"
  fi
  install_luacheck || die "apt-get could not install $LUACHECK_DEB: install luacheck by hand"
fi

printf 'STYLUA=%s\n' "$stylua"
printf 'LUACHECK=%s\n' "$(command -v luacheck)"
