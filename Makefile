# Everything a newcomer or a CI machine needs starts here; `make help` lists it.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-real contract chaos chaos-short soak-logs log-loss bench test check protos requirements \
	package-test test-oldest ui-test compose-test docs clean

BIN := .venv/bin
UV := .tools/bin/uv
UV_VERSION := 0.13.9
PROTOC := .tools/protos/bin/python
INSTALL := $(UV) pip install --quiet --python
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '  make %-14s %s\n' "$$target" "$$text"; done

setup: .venv/.dev ## Make .venv with all that tests and checks need (227 MB to download)
	@echo "Ready: .venv"

demo: .venv/.runtime ## Run a training pipeline on an Iris of its own (56 MB to download)
	@$(BIN)/python -m fray_airflow.demo

demo-real: .venv/.dev ## The same pipeline on a real Iris, a local cluster of marin-iris
	$(BIN)/python tests/real_iris/demo.py

contract: .venv/.dev ## The contract cases on the local and the real Iris, over both transports, as a table
	$(BIN)/python -m pytest -q tests/contract tests/parity $(ARGS)

chaos: .venv/.dev ## Kill parts of a real Airflow and a real Iris at random while 40 tasks run (8 minutes)
	$(BIN)/python tests/chaos/run.py --faults 40 --tasks 40 --iris real $(ARGS)

chaos-short: .venv/.dev ## Five faults, ten tasks, the embedded Iris (2 minutes)
	$(BIN)/python tests/chaos/run.py --faults 5 --tasks 10 --iris local --seed 8 $(ARGS)

soak-logs: .venv/.dev ## A million lines through a deferred task, counted at both ends (12 minutes; ARGS="--iris real")
	$(BIN)/python benchmarks/soak_logs.py $(ARGS)

log-loss: .venv/.dev ## How many lines the real Iris keeps of jobs that print fast (4 minutes)
	$(BIN)/python benchmarks/log_loss.py $(ARGS)

# The contract's cases of one Iris are submitted together, so they stay in one process; all else runs on every core,
# and a core that is done takes tests from the other.
test: check ## Run the checks, then all tests; ARGS="-k name" goes to the first pytest
	$(BIN)/python -m pytest -q -n auto --dist worksteal --ignore tests/contract $(ARGS)
	$(BIN)/python -m pytest -q tests/contract

test-oldest: .tools/oldest/.ready ## Tests on the lowest versions that are promised, of Airflow 3.2 too (10 minutes)
	.tools/oldest/bin/python -m pytest -q -n auto --dist worksteal -p no:cacheprovider tests/spec tests/lifecycle \
		tests/iris tests/local tests/airflow_layer tests/plugins $(ARGS)

check: .venv/.dev .tools/protos/.ready ## Check format, lint, types, layers and generated code
	$(BIN)/ruff format --check --quiet --output-format concise .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	@# It prints a page even when all is well.
	$(BIN)/lint-imports --no-logo >.tools/layers.txt || { cat .tools/layers.txt; exit 1; }
	$(PROTOC) protos/generate.py --check

protos: .tools/protos/.ready ## Make the generated modules anew from protos/
	$(PROTOC) protos/generate.py

requirements: | $(UV) ## Pin the newest versions that pyproject.toml allows, with their hashes
	$(COMPILE) --upgrade pyproject.toml --group dev --group iris -o requirements/dev.txt
	$(COMPILE) --upgrade pyproject.toml -c requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) --upgrade --group build -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) --upgrade --group ui -c requirements/dev.txt -o requirements/ui.txt
	$(COMPILE) --upgrade --group compose -c requirements/dev.txt -o requirements/compose.txt
	$(COMPILE) --upgrade --group package -c requirements/dev.txt -o requirements/package.txt
	$(COMPILE) --upgrade --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) --upgrade pyproject.toml --group bench -c requirements/dev.txt -o requirements/bench.txt
	@# What Airflow 3.2 needs is of its own days: newer versions break it.
	$(COMPILE) --upgrade --exclude-newer 2026-05-31 --resolution lowest-direct pyproject.toml --group oldest \
		-o requirements/oldest.txt
	$(COMPILE) --upgrade --group protos -o requirements/protos.txt

package-test: .venv/.package ## Build sdist and wheel, and use the wheel beside the newest and the lowest requirements
	$(BIN)/python tests/package/smoke.py --uv $(UV)

bench: .venv/.dev .tools/bench/.ready ## Measure what docs/performance.md tells, and write its tables and plot (10 minutes)
	$(BIN)/python benchmarks/bench.py $(ARGS)

# In CI, FRAY_AIRFLOW_REQUIRE_BROWSER=1 turns a missing browser from a skip into a failure. Not part of `make test`:
# it starts two Airflows, and not every machine has a browser.
ui-test: .venv/.ui ## The Iris page and the connection form in a real browser and Airflow; screenshots in .ui/ (4 minutes)
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/ui/browser_connection.py tests/ui/browser_page.py $(ARGS)

compose-test: .venv/.compose ## The services of docker-compose.yml as plain processes, on a PostgreSQL of this machine (3 minutes)
	$(BIN)/python tests/compose/run.py $(ARGS)

# -n: a link to a name of the package that is not documented is a warning too. -E: nothing is left over from before.
docs: .venv/.docs ## Build the documentation, offline; warnings and dead links fail (20 seconds)
	@$(BIN)/python -m sphinx -b html -E -n -W --keep-going -q docs docs/_build/html
	@echo "Documentation: docs/_build/html/index.html"

clean: ## Remove everything that make made
	rm -rf .venv .tools .demo .ui build dist docs/_build .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis

# One environment, filled in two steps: a first demo does not wait for the real Iris and the tools of the tests. The
# pins of runtime.txt and build.txt are those of dev.txt, so neither step undoes the other.
.venv/.runtime: requirements/runtime.txt requirements/build.txt pyproject.toml .venv/.python
	@echo "Installing fray-airflow and requirements/runtime.txt into .venv"
	@$(INSTALL) $(BIN)/python --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@$(INSTALL) $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.runtime
	@echo "Installing requirements/dev.txt into .venv"
	@$(INSTALL) $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.ui: requirements/ui.txt .venv/.dev
	@echo "Installing requirements/ui.txt into .venv"
	@$(INSTALL) $(BIN)/python --require-hashes -r requirements/ui.txt
	@touch $@

# The other providers would change the versions of the environment that tests run in.
.tools/bench/.ready: requirements/bench.txt | $(UV)
	@echo "Installing requirements/bench.txt into .tools/bench"
	@$(UV) venv --quiet --clear .tools/bench
	@$(INSTALL) .tools/bench/bin/python --require-hashes -r requirements/bench.txt
	@touch $@

.tools/oldest/.ready: requirements/oldest.txt .venv/.dev
	@echo "Installing fray-airflow and requirements/oldest.txt into .tools/oldest"
	@$(UV) venv --quiet --clear --python $(BIN)/python .tools/oldest
	@$(INSTALL) .tools/oldest/bin/python --require-hashes -r requirements/oldest.txt
	@$(INSTALL) .tools/oldest/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.compose: requirements/compose.txt .venv/.dev
	@echo "Installing requirements/compose.txt into .venv"
	@$(INSTALL) $(BIN)/python --require-hashes -r requirements/compose.txt
	@touch $@

.venv/.package: requirements/package.txt .venv/.dev
	@echo "Installing requirements/package.txt into .venv"
	@$(INSTALL) $(BIN)/python --require-hashes -r requirements/package.txt
	@touch $@

.venv/.docs: requirements/docs.txt .venv/.dev
	@echo "Installing requirements/docs.txt into .venv"
	@$(INSTALL) $(BIN)/python --require-hashes -r requirements/docs.txt
	@touch $@

.venv/.python: .python-version | $(UV)
	@case "$$($(BIN)/python --version 2>&1)" in \
	"Python $$(cat .python-version)."*) ;; \
	*) $(UV) venv --quiet --clear .venv || { \
		echo "Python $$(cat .python-version) was neither found nor downloaded: install it, or set UV_PYTHON to its path." >&2; \
		exit 1; } ;; \
	esac
	@touch $@

# protoc's plugin needs an old protobuf, so it has an environment of its own.
.tools/protos/.ready: requirements/protos.txt | $(UV)
	@echo "Installing requirements/protos.txt into .tools/protos"
	@$(UV) venv --quiet --clear .tools/protos
	@$(INSTALL) $(PROTOC) --require-hashes -r requirements/protos.txt
	@touch $@

# The uv on PATH if it runs (a version manager's stand-in need not), else one from pip: in a venv, or, where the system's
# Python comes without the venv module, in a plain folder.
$(UV):
	@mkdir -p .tools/bin
	@if uv --version >/dev/null 2>&1; then ln -sf "$$(command -v uv)" $@; exit 0; fi; \
	echo "Installing uv $(UV_VERSION) into .tools/uv"; \
	for python in python3 /usr/bin/python3 python; do \
		rm -rf .tools/uv; \
		$$python -m venv .tools/uv && .tools/uv/bin/python -m pip install --quiet uv==$(UV_VERSION) && break; \
		rm -rf .tools/uv; \
		$$python -m pip install --quiet --target .tools/uv uv==$(UV_VERSION) && break; \
	done >.tools/uv.log 2>&1; \
	if .tools/uv/bin/uv --version >/dev/null 2>&1; then ln -sf ../uv/bin/uv $@; exit 0; fi; \
	cat .tools/uv.log >&2; \
	echo "uv could not be installed: put uv on PATH (python3 -m pip install uv==$(UV_VERSION)) and run make again." >&2; \
	exit 1
