# `make help` lists everything there is to remember.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Every process of a test would compile again whatever it imports.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := $(shell find src tools -type f -not -name '*.pyc')

# A test that takes so many seconds says where it waits, and has failed; the others go on.
NOT_FOR_EVER := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.DEFAULT_GOAL := help
.PHONY: help demo demo-kubernetes install test test-kubernetes test-fresh-debian check docs storm-kubernetes storm bench fuzz clean

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' Makefile | expand -t 23

demo: .venv/plain ## Install into .venv, then train twelve small networks under two policies
	@$(BIN)/dovetail demo
	@test -e .venv/installed || echo "The core runs as plain Python so far: make install compiles it (a minute), which makes it twice as fast."

demo-kubernetes: .venv/plain ## Show a study of pods on a real cluster of two nodes, built and started here
	@$(BIN)/python -m tools.kubernetes demo

install: .venv/installed ## Install into .venv, with the core compiled where there is a C compiler

test: .venv/installed .venv/dev .venv/torch .venv/extras ## Run every test, side by side on the cores there are
	$(BIN)/python -m pytest -n auto --dist loadfile $(NOT_FOR_EVER)

test-kubernetes: .venv/installed .venv/dev ## Run the tests on a real cluster of two nodes here, or on KUBECONFIG's
	@test -n "$$KUBECONFIG" || $(BIN)/python -m tools.kubernetes build
	DOVETAIL_TEST_KUBERNETES=1 $(BIN)/python -m pytest tests/kubernetes

test-fresh-debian: .venv/installed .venv/dev ## Type the page for administrators on a fresh Debian with its own systemd (root; 8 minutes)
	DOVETAIL_TEST_FRESH_DEBIAN=1 $(BIN)/python -m pytest tests/cli/test_fresh_debian.py

check: .venv/installed .venv/dev ## Run the linters, the type checker and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/plain .venv-docs/ready ## Make docs/ and a reference into a site, build/docs/site/index.html
	@$(BIN)/python -m tools.docs_site stage build/docs
	@cd build/docs && ../../.venv-docs/bin/zensical build
	@$(BIN)/python -m tools.docs_site check build/docs/site

storm-kubernetes: .venv/installed .venv/dev ## Run also the long tests of faults on a real cluster (half an hour)
	$(BIN)/python -m tools.kubernetes build
	DOVETAIL_TEST_KUBERNETES=all $(BIN)/python -m pytest tests/kubernetes

storm: .venv/installed .venv/dev ## Kill a daemon 1,000 times, damage its journal at 500 places (half an hour)
	DOVETAIL_STORM_KILLS=1000 DOVETAIL_STORM_CUTS=500 $(BIN)/python -m pytest -q -s \
		tests/daemon/test_kills.py tests/daemon/test_cuts.py tests/store/test_store.py

bench: .venv/installed .venv/dev .venv-peers/ready ## Measure what is promised about speed
	$(BIN)/python -m benchmarks

fuzz: .venv/installed .venv/dev ## Try every policy in 20,000 small random clusters (an hour)
	DOVETAIL_FUZZ=20000 $(BIN)/python -m pytest tests/contracts/test_wild_worlds.py

clean: ## Remove the environments and everything built
	rm -rf .venv .venv-peers .venv-docs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# --------------------------------------------------------------------------------- the environments

.venv/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dovetail needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) --no-compile --require-hashes -r requirements.lock
	@touch $@

# To see something within a minute or so; what is compiled already stays so.
.venv/plain: .venv/ready pyproject.toml $(SOURCES)
	@rm -f .venv/installed
	@DOVETAIL_PURE=1 $(PIP) --no-deps --no-build-isolation --force-reinstall .
	@touch $@

.venv/installed: .venv/ready pyproject.toml $(SOURCES)
	$(PIP) --no-deps --no-build-isolation --force-reinstall .
	@$(BIN)/python -c 'import dovetail.core.state as s; s.__file__.endswith(".py") and print("Notice: no C compiler or no Python headers here, so the pure-Python core runs (about half as fast).")'
	@touch .venv/plain $@

# What checks and tests the project; make demo goes without it.
.venv/dev: .venv/ready requirements-dev.lock
	$(PIP) --no-compile --require-hashes -r requirements-dev.lock
	@touch $@

# PyTorch without CUDA, for the tests of the SDK. Where pip does not find that build, those tests are
# skipped and say so; PIP_EXTRA_INDEX_URL can name PyTorch's own index for it.
.venv/torch: .venv/dev requirements-torch.lock
	@$(PIP) --no-compile --require-hashes -r requirements-torch.lock || \
		echo "Notice: PyTorch without CUDA cannot be installed here, so its tests are skipped."
	@touch $@

# Optuna and a reader of parquet files, for the tests of what they add.
.venv/extras: .venv/torch requirements-extras.lock
	$(PIP) --no-compile --require-hashes -r requirements-extras.lock
	@touch $@

# Other tools for tuning, beside which ours is measured; in an environment of their own, as they are large.
.venv-peers/ready: requirements-peers.lock
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-peers.lock && touch $@ || \
		echo "Notice: Optuna and Ray cannot be installed here, so ours is not measured beside them."

# What builds the site; in an environment of its own, as nothing else needs it.
.venv-docs/ready: requirements-docs.lock
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-docs.lock
	@touch $@
