# Every target sets up what it needs on a machine with Python 3.11 or newer and a C compiler.
# `make help` lists them. Set PYTHON to choose the interpreter, CC to choose the compiler.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PACKAGES := router catalog_compiler decoder fleet loadtest demo benchmarks
SHARED_DATA := $(or $(POINTSMAN_SHARED_DATA),../shared/data)
# Each is started before it is chosen: a name on the path may be a shim of a version not installed.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3 python
USABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: venv kernels assets ## compile real catalogs, serve them, route real requests
	@$(PY) -m demo.run

.PHONY: test
test: lint kernels assets ## every check, then every test
	@echo "==> pytest"
	@POINTSMAN_SHARED_DATA="$$(cd "$(SHARED_DATA)" 2>/dev/null && pwd || echo "$(SHARED_DATA)")" \
		$(PY) -m pytest

.PHONY: venv
venv: $(READY) ## .venv with the locked packages and this one

# PIP_FIND_LINKS and PIP_EXTRA_INDEX_URL reach pip from the environment (README, Install).
$(READY): requirements.lock pyproject.toml
	@python="$(PYTHON)"; \
	for each in $(PYTHONS); do \
		if [ -z "$$python" ] && $$each -c '$(USABLE)' >/dev/null 2>&1; then python=$$each; fi; \
	done; \
	if ! "$${python:-false}" -c '$(USABLE)' 2>/dev/null; then \
		echo "error: no usable Python 3.11 or newer ($${python:-looked for $(PYTHONS)}); install" \
			"one with its venv module, or run make PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	if ! $(PY) -c '$(USABLE)' 2>/dev/null; then \
		echo "==> $(VENV): $$("$$python" --version)"; \
		"$$python" -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "==> packages of requirements.lock (the first time: some minutes, mostly torch)"
	@$(PY) -m pip install --disable-pip-version-check -r requirements.lock
	@$(PY) -m pip install --disable-pip-version-check --quiet --no-deps --editable .
	@touch $(READY)

.PHONY: kernels
kernels: $(READY) ## compile the C kernels for this CPU
	@echo "==> C kernels"
	@$(PY) -c 'from decoder.kernels.build import build_library; print(build_library())'
	@$(PY) -c 'from decoder.arguments.native import LIBRARY; print(LIBRARY.build())'

.PHONY: assets
assets: $(READY) ## fetch and verify the weights and the demo data
	@echo "==> weights and demo data"
	@$(PY) -m router.assets fetch

.PHONY: lint
lint: $(READY) ## formatter, linter, types, import rules
	@echo "==> ruff format"
	@$(PY) -m ruff format --check .
	@echo "==> ruff check"
	@$(PY) -m ruff check .
	@echo "==> mypy --strict"
	@$(PY) -m mypy --strict $(foreach package,$(PACKAGES),-p $(package))
	@echo "==> import-linter"
	@$(VENV)/bin/lint-imports

.PHONY: format
format: $(READY) ## rewrite as the formatter and the linter want
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

.PHONY: proto
proto: $(READY) ## generate router/rpc from proto/
	@$(PY) -m router.rpc_build

RESULTS := benchmarks/results

.PHONY: bench
bench: kernels assets ## speed of passes, routes and starts; more where the development data is
	@$(PY) -m benchmarks.prefill --json $(RESULTS)/prefill.json
	@$(PY) -m benchmarks.prefill --model qwen3-0.6b-shape --json $(RESULTS)/prefill_0.6b.json
	@$(PY) -m benchmarks.route_decode --json $(RESULTS)/route_decode.json
	@$(PY) -m benchmarks.startup --json $(RESULTS)/startup.json
	@if [ -d "$(SHARED_DATA)" ]; then \
		export POINTSMAN_SHARED_DATA="$(SHARED_DATA)"; \
		$(PY) -m benchmarks.constrained --json $(RESULTS)/constrained.json && \
		$(PY) -m benchmarks.catalog_size --json $(RESULTS)/catalog_size.json && \
		$(PY) -m benchmarks.compile_catalog; \
	else echo "constrained, catalog_size, compile_catalog left out: no data at $(SHARED_DATA)"; fi

# An environment of its own: these packages are no part of the product.
PEERS := .venv-peers
$(PEERS)/.ready: $(READY) pyproject.toml benchmarks/peers/tile_config.h
	@echo "==> $(PEERS): what the decoder is measured beside; llama.cpp is compiled (some minutes)"
	@$(PY) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --disable-pip-version-check -q -r requirements.lock
	@# Not from pip's cache: it would hand back a build made with other flags.
	@CMAKE_ARGS="-DGGML_NATIVE=ON -DGGML_OPENMP=ON \
		'-DCMAKE_CXX_FLAGS=-include $(CURDIR)/benchmarks/peers/tile_config.h'" \
		$(PEERS)/bin/python -m pip install --disable-pip-version-check --no-cache-dir \
		--editable ".[peers]" -c requirements.lock
	@touch $@

.PHONY: bench-peers
bench-peers: $(PEERS)/.ready kernels assets ## beside llama-cpp-python, outlines, xgrammar (needs the data)
	@POINTSMAN_SHARED_DATA="$(SHARED_DATA)" $(PEERS)/bin/python -m benchmarks.peers \
		--json $(RESULTS)/peers.json

# Masks: schemas with instances of which it is known whether they are valid, and the official suite.
.PHONY: bench-schemas
bench-schemas: $(PEERS)/.ready kernels assets ## arguments' grammars beside llguidance, xgrammar, outlines-core (needs the data)
	@$(PEERS)/bin/python -m benchmarks.maskbench "$(SHARED_DATA)/schemas/maskbench_dev.jsonl" \
		--peers llguidance,xgrammar,xgrammar-strict,outlines-core --json $(RESULTS)/maskbench_peers.json
	@$(PEERS)/bin/python -m benchmarks.json_schema_suite \
		"$(SHARED_DATA)/schemas/json_schema_test_suite_2020_12.json" \
		--peers llguidance,xgrammar,xgrammar-strict,outlines-core \
		--json $(RESULTS)/json_schema_suite.json

.PHONY: accuracy
accuracy: kernels assets ## how often the right tool is chosen (needs the development data)
	@$(PY) -m benchmarks.accuracy --data "$(SHARED_DATA)" --json benchmarks/results/accuracy.json

# Each ends with its verdicts; the reports lie in .loadtest/.
.PHONY: loadtest
loadtest: kernels assets ## load with an audit of every request: the short scenarios
	@export POINTSMAN_SHARED_DATA="$(SHARED_DATA)"; status=0; \
	for run in contract "contract --mode open" "contract --mode locust" drain swap chaos greedy; do \
		echo "==> loadtest $$run"; \
		$(PY) -m loadtest $$run --out ".loadtest/$$(echo $$run | sed 's| --mode |-|')" || status=$$?; \
	done; exit $$status

# Without $(READY): the lock may be what keeps it from being made.
.PHONY: lock
lock: ## write requirements.lock anew from pyproject.toml
	@sh -eu -c 'python=$(or $(PYTHON),python3.11); folder=$$(mktemp -d); \
		trap "rm -rf $$folder" EXIT; \
		echo "==> a fresh environment of $$($$python --version) with what pyproject.toml asks for"; \
		$$python -m venv $$folder/venv; \
		$$folder/venv/bin/python -m pip install --disable-pip-version-check --editable ".[dev]"; \
		$$folder/venv/bin/python -m pip freeze --all --exclude-editable > $$folder/frozen; \
		{ echo "# Written by \`make lock\`: every package of the runtime and the dev extra."; \
		  echo "# Local builds (+cpu) and the parts of a CUDA build are left out: pip takes the build"; \
		  echo "# of torch that its configured index offers."; \
		  sed -e "s/+[A-Za-z0-9.]*\$$//" $$folder/frozen | grep -Ev "^(nvidia|cuda)-|^(triton|pip|wheel)==" \
		  | LC_ALL=C sort -f; \
		} > $$folder/lock; \
		mv $$folder/lock requirements.lock'
	@grep -c == requirements.lock | sed 's/$$/ packages in requirements.lock/'

.PHONY: clean
clean: ## remove .venv, the demo's files and the tools' caches (not the cache of weights)
	@rm -rf $(VENV) $(PEERS) .demo .loadtest build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
