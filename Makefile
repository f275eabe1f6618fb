# Setpoint. `make up` and `make test` are all a newcomer needs; `make help` lists the rest.
SHELL := /bin/bash
CARGO ?= cargo
RUN := .run
BIN := target/release/setpoint

.PHONY: help up down build check test test-long test-cgroup2 bench scale setup fmt

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## Build the release binary
	$(CARGO) build --release -p setpoint

up: build ## Build and start a cluster in the background: root runs real containers, others three simulated nodes; returns when it is ready
	@scripts/up $(BIN) $(RUN)

down: ## Stop what `make up` started; its data stays in .run
	@scripts/down $(BIN) $(RUN)

setup: ## Install what the tests need (Debian packages, Python client); says what it cannot
	@scripts/test-setup

check: ## Formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

test: setup check ## Everything that must hold, in under 15 minutes
	scripts/test

test-long: setup ## Longer tests: crashes, random histories, soak
	SETPOINT_LONG=1 scripts/test

test-cgroup2: ## Tests of containers on an emulated machine with cgroup v2 and AppArmor; see docs/conformance.md
	scripts/test-cgroup2

bench: build ## The load scenarios against a fresh server; see docs/performance.md
	@scripts/bench $(BIN)

scale: build ## 10,000 pods on 1,000 simulated nodes, held: memory, single calls, writes; see docs/performance.md
	@scripts/scale --binary $(BIN)

fmt: ## Format the code
	$(CARGO) fmt --all
