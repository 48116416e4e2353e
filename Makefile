# Everything there is to remember: make demo, make test, make check, make bench.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src tools -type f -not -name '*.pyc')

.PHONY: demo test check bench storm fuzz clean

demo: .venv/installed
	@$(BIN)/dovetail demo

test: .venv/installed .venv/torch .venv/extras
	$(BIN)/python -m pytest

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A thousand kills of a daemon, and five hundred cuts of its journal: half an hour or so.
storm: .venv/installed
	DOVETAIL_STORM_KILLS=1000 DOVETAIL_STORM_CUTS=500 $(BIN)/python -m pytest -q -s \
		tests/daemon/test_kills.py tests/daemon/test_cuts.py

bench: .venv/installed .venv-peers/ready
	$(BIN)/python -m benchmarks

# Every policy in tens of thousands of small worlds that nobody would think of: an hour or so.
fuzz: .venv/installed
	DOVETAIL_FUZZ=20000 $(BIN)/python -m pytest tests/contracts/test_wild_worlds.py

.venv/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dovetail needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

.venv/installed: .venv/ready pyproject.toml $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall .
	@$(BIN)/python -c 'import dovetail.core.state as s; s.__file__.endswith(".py") and print("Notice: no C compiler or no Python headers here, so the pure-Python core runs (about half as fast).")'
	@touch $@

# PyTorch without CUDA, for the tests of the SDK. Where pip does not find that build, those tests are
# skipped and say so; PIP_EXTRA_INDEX_URL can name PyTorch's own index for it.
.venv/torch: .venv/ready requirements-torch.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-torch.lock || \
		echo "Notice: PyTorch without CUDA cannot be installed here, so its tests are skipped."
	@touch $@

# Optuna and a reader of parquet files, for the tests of what they add.
.venv/extras: .venv/torch requirements-extras.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-extras.lock
	@touch $@

# Other tools for tuning, beside which ours is measured; in an environment of their own, as they are large.
.venv-peers/ready: requirements-peers.lock
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-peers.lock && touch $@ || \
		echo "Notice: Optuna and Ray cannot be installed here, so ours is not measured beside them."

clean:
	rm -rf .venv .venv-peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
