# Everything is set up on first use, in .venv, from pyproject.toml.
PYTHON ?= python3
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint bench deployed load faults liars clean
.DELETE_ON_ERROR:

## The main job: the trust models side by side at the paper's scale, a table and a plot in out/.
run: $(VENV)/run.installed
	@mkdir -p out
	$(BIN)/dpbandits simulate --plot out/regret.png --json out/regret.json

## Lint, types, architecture and all tests.
test: lint
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## Speed as ratios, each against what is measured beside it in the same run.
bench: $(VENV)/dev.installed
	$(BIN)/python benchmarks/run_cost.py
	$(BIN)/python benchmarks/shuffle_accounting.py
	$(BIN)/python benchmarks/calibration_time.py
	$(BIN)/python benchmarks/design_fuzz.py --cases 5000
	$(BIN)/python benchmarks/design_speed.py
	$(BIN)/python benchmarks/linucb_speed.py
	$(BIN)/python benchmarks/mapped_actions.py
	$(BIN)/python benchmarks/million_actions.py

## Studies of 2,000 clients in real processes, for every trust model.
deployed: $(VENV)/dev.installed
	$(BIN)/python benchmarks/deployed_study.py

## Reports taken in durably, against an empty handler of the same server; then memory over many of them.
load: $(VENV)/dev.installed
	$(BIN)/python benchmarks/service_load.py
	$(BIN)/python benchmarks/service_load.py --reports 1000000

## Studies under faults: RUNS of them, which follow from SEED; then PROCESSES of real processes over TLS, half a minute each.
RUNS ?= 500
SEED ?= 1
PROCESSES ?= 10
faults: $(VENV)/dev.installed
	$(BIN)/python -m tests.faults --runs $(RUNS) --seed $(SEED)
	$(BIN)/python -m tests.faults --processes --runs $(PROCESSES) --seed $(SEED)

## What hostile parties gain: 100,000 plans of a hostile coordinator, and one liar in each of 500 studies.
liars: $(VENV)/dev.installed
	$(BIN)/python -m tests.service.hostile_plans --plans 100000 --seed $(SEED)
	$(BIN)/python benchmarks/one_liar.py --studies 500

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "dpbandits needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot]'
	@touch $@

$(VENV)/dev.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/run.installed
