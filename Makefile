# `make check` is what CI runs. Each target is one script; `scripts/` says how and why.

.PHONY: help check test test-long lint demo demo-headless bench pictures deps build

help: ## Lists these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: lint test ## Lint and tests, exactly as CI runs them

test: ## All tests (the real agents included) without a network; ARGS="--test NAME" narrows
	@scripts/test.sh $(ARGS)

test-long: ## The long tests: soaks, sweeps, repetitions
	@scripts/test.sh --long $(ARGS)

lint: ## Formatting, clippy, Lua linters, forbidden words
	@scripts/lint.sh

demo: ## Two connected demo agents in Neovim, no account and no network
	@scripts/demo.sh

demo-headless: ## The same by script: prints the hops as JSON lines, exit 0 only if answered
	@scripts/demo.sh --headless

bench: ## Measures the host against Neovim's own terminal; ARGS="bulk keys" chooses
	@scripts/bench.sh $(ARGS)

pictures: ## Makes the README's pictures from a real run
	@scripts/pictures.sh

deps: ## Installs the pinned tools (Neovim, agents, Lua tools) into the cache
	@scripts/neovim.sh
	@scripts/agents.sh
	@scripts/luatools.sh

build: ## The release program, as the plugin uses it
	@cargo build --release --locked
