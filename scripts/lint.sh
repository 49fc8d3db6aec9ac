#!/usr/bin/env bash
# Everything that must hold without running the program: formatting, lints (warnings are errors), and
# words that must not be in the repository. Prints each step with its duration. What is written twice (Lua
# types, protocol hash, the help's tags) is compared by tests.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"
cd "$root"

lines=$("$root/scripts/luatools.sh")
while IFS='=' read -r name value; do
  case $name in
    STYLUA) stylua=$value ;;
    LUACHECK) luacheck=$value ;;
  esac
done <<<"$lines"

# Tracked files and new ones that are not ignored.
files() { git ls-files --cached --others --exclude-standard -- "$@"; }

lua_files() {
  local all=() file
  while IFS= read -r file; do if [[ -e $file ]]; then all+=("$file"); fi; done < <(files '*.lua')
  if ((${#all[@]})); then "$@" "${all[@]}"; else say "no Lua file yet"; fi
}

# A path of one machine, or the host of a package registry: right here, wrong everywhere else. The
# brackets keep this file from matching itself.
forbidden_words() {
  local words='(^|[^[:alnum:]_./-])/(wor[k]|roo[t])/|registry[.]npmjs|pypi[.]org|pythonhosted[.]org|crates[.]io|deb[.]debian[.]org'
  local found
  # No match is exit code 1; anything above is a failure of git itself.
  found=$(git grep --untracked -nIE "$words" -- . ':!Cargo.lock' || (($? == 1)))
  [[ -z $found ]] || die "a machine's path or a registry's host:"$'\n'"$found"
}

# Only long tests may be ignored, and they say so; nothing else is switched off silently.
ignored_tests() {
  local found
  found=$(git grep --untracked -nE '#\[ignore' -- '*.rs' || (($? == 1)))
  found=$(grep -v '#\[ignore = "long: ' <<<"$found" || (($? == 1)))
  [[ -z $found ]] || die "an ignored test needs the reason #[ignore = \"long: …\"]:"$'\n'"$found"
}

step "forbidden words" forbidden_words
step "ignored tests" ignored_tests
step "cargo fmt" cargo fmt --check
step "stylua" lua_files "$stylua" --check --color never
step "luacheck" lua_files "$luacheck" --quiet --no-color --codes
step "clippy" cargo clippy --quiet --locked --all-targets -- -D warnings
