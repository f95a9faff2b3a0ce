# make run: install and run the main job.  make test: install what the tests need and run everything CI runs.
# make quick: linters, types and the fast tests, for every change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compiled files are kept: tests start hundreds of processes, each of which would compile the package again.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run quick quick-tests test test-all checks lint types docs bench clean

run: $(VENV)/.run
	$(BIN)/fedcast run --seeds 5

# Whole files go to one worker while both are busy (worksteal), so that fixtures of a file are made once.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

quick: $(VENV)/.dev
	$(MAKE) --jobs=3 --output-sync=target lint types quick-tests

# Tests that it lists as slow belong into tests/long_tests.txt.
quick-tests: $(VENV)/.dev
	$(PYTEST) -m "not slow and not long" --durations=10 --durations-min=2

# One worker more than cores: some tests wait for other processes.
test: checks
	$(PYTEST) -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -m "not slow" --durations=25

# With coverage, which takes a quarter more time and must not fall below the limit in pyproject.toml.
test-all: checks
	$(PYTEST) --cov --cov-report=term:skip-covered

# One core each.
checks: $(VENV)/.dev
	$(MAKE) --jobs=2 --output-sync=target lint types docs

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYTHONPATH=tools $(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx --fail-on-warning --quiet docs site

bench: $(VENV)/.dev
	for subject in cli data network clustering allocation training federation; do $(BIN)/python benchmarks/$$subject.py --quick || exit 1; done

clean:
	rm -rf $(VENV) site out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml paper/pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable . --editable paper
	touch $@

$(VENV)/.dev: pyproject.toml paper/pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable ".[dev]" --editable paper
	touch $@ $(VENV)/.run
