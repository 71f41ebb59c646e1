# Needs Python 3.11 or newer and make; everything else goes into .venv. Another Python: `make PYTHON=python3.13 test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CHECKED := $(VENV)/checked
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
PACKAGES := actors jobs storage

.DEFAULT_GOAL := help
.PHONY: help demo test check check-style check-types check-imports format bench lock clean

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED) ## Run the demonstration
	$(BIN)/perdure demo

test: $(INSTALLED) ## Run the tests; ARGS="-k turn" goes to pytest
	$(BIN)/pytest --numprocesses 2 --dist loadfile $(ARGS)

check: check-style check-imports check-types ## Check style, import rules and types

check-style: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-imports: $(INSTALLED)
	$(BIN)/lint-imports --no-cache

# Type checkers do not follow the mapping of folders to package names, so they read the folders through links.
check-types: $(INSTALLED)
	@mkdir -p $(CHECKED)/perdure
	@for package in $(PACKAGES); do ln -sfn ../../../$$package $(CHECKED)/perdure/$$package; done
	$(BIN)/mypy -p perdure.actors -p perdure.jobs -p perdure.storage -p tests

format: $(INSTALLED) ## Format the code
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## Run the benchmarks
	$(BIN)/python -m tests.benchmarks.turn
	$(BIN)/python -m tests.benchmarks.conversations
	$(BIN)/python -m tests.benchmarks.memory

lock: $(BIN)/uv ## Write requirements.lock anew; ARGS=--upgrade takes newer versions
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --quiet --output-file requirements.lock $(ARGS)

clean: ## Remove the environment, caches and build outputs
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Perdure needs Python 3.11 or newer; name one with PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Locking must work while the lock is out of date, so it does not wait for an installation from it.
$(BIN)/uv: | $(BIN)/python
	$(PIP) install uv

# Wheels only: a source distribution would build with tools that no hash pins.
$(INSTALLED): pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing into $(VENV) (about 1 GB; it takes minutes) ..."
	$(PIP) install --require-hashes --only-binary :all: --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
