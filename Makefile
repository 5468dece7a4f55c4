# Each target creates the virtual environment .venv on first use and installs what pyproject.toml lists.
# Example: make test PYTHON=/usr/bin/python3.12
PYTHON ?= python3
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test browser types flower federation demo lint audit docs five-minutes steps figures bench deployed load siege faults liars clean
.DELETE_ON_ERROR:

## Compare the trust models at (ε, δ) = (1, 1e-6), and the paper's constants; print a table and write a plot
## and JSON to out/. Then run a whole study with its dashboard.
run: $(VENV)/run.installed
	@mkdir -p out
	$(BIN)/dpbandits simulate --compare-paper --plot out/regret.png --json out/regret.json
	$(BIN)/dpbandits demo

## Run a whole study on this machine, with its dashboard; open the dashboard in a browser.
demo: $(VENV)/run.installed
	$(BIN)/dpbandits demo --open

## Run the linters, the type checker, the import contracts and all tests. Meanwhile Chromium and the tools that
## generate types for TypeScript are installed, and a small federation runs on Flower.
test:
	@$(MAKE) --no-print-directory -j3 lint browser types flower
	$(BIN)/python -m pytest -n auto --dist worksteal

## Install Debian's Chromium for the tests of the dashboard, if it is missing and this user may. Without it,
## these tests are skipped. Every step has a time limit, so that a machine without a network goes on.
APT := DEBIAN_FRONTEND=noninteractive timeout 240 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=15
browser:
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "chromium is missing and cannot be installed here: the tests of the dashboard in a browser are skipped"; \
	elif $(APT) install -y --no-install-recommends chromium >/dev/null 2>&1 || { $(APT) update >/dev/null 2>&1 && \
	  $(APT) install -y --no-install-recommends chromium >/dev/null 2>&1; }; then echo "chromium was installed"; \
	else echo "chromium cannot be installed: the tests of the dashboard in a browser are skipped"; fi

## Run a small federation on Flower in an environment of its own, since Flower needs an older starlette. The other
## environment is made first: two installations of this tree at once would write the same files.
FLOWER := .venv-flower
flower: $(VENV)/dev.installed
	@if $(MAKE) --no-print-directory $(FLOWER)/installed >/dev/null 2>&1; \
	then $(FLOWER)/bin/python -m pytest --noconftest -p no:cacheprovider tests/federation/test_flower.py; \
	else echo "flwr cannot be installed here: the test of a federation on Flower is skipped"; fi

## Run federations of real processes: 100,000 users a round, 20 kills, a site that is gone, and no network.
federation: $(FLOWER)/installed
	$(FLOWER)/bin/python -m tests.federation.deployment whole
	$(FLOWER)/bin/python -m tests.federation.deployment kills
	$(FLOWER)/bin/python -m tests.federation.deployment gone
	$(FLOWER)/bin/python -m tests.federation.deployment alone

## Install the tools that generate types for TypeScript into the virtual environment, in the pinned versions, for
## tests/service/test_types.py. Without npm or a network this test is skipped.
NPM := $(VENV)/npm
TYPESCRIPT := tests/service/typescript
types: | $(VENV)/bin/python
	@if cmp -s $(TYPESCRIPT)/package-lock.json $(NPM)/installed.json; then :; \
	elif ! command -v npm >/dev/null; then echo "npm is missing: the test of types for TypeScript is skipped"; \
	elif mkdir -p $(NPM) && cp $(TYPESCRIPT)/package.json $(TYPESCRIPT)/package-lock.json $(NPM)/ && \
	  timeout 120 npm ci --prefix $(NPM) --silent --no-audit --no-fund --ignore-scripts >/dev/null 2>&1 && \
	  cp $(TYPESCRIPT)/package-lock.json $(NPM)/installed.json; then echo "the tools for TypeScript were installed"; \
	else echo "the tools for TypeScript cannot be installed: the test of its types is skipped"; fi

## Run the linters, the type checker and the import contracts.
lint: $(VENV)/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## Look up known vulnerabilities of the packages that a deployment installs, where the data can be had.
audit: $(VENV)/dev.installed
	-$(BIN)/pip install --quiet 'pip-audit>=2.7'
	$(BIN)/python deploy/audit.py

## Build the documentation site in out/site, with warnings as errors, and check its links. `make test` does it too.
docs: $(VENV)/dev.installed
	$(BIN)/python -m docs._site

## Follow the page "Five minutes" literally in a fresh clone, and print how long it took.
five-minutes: $(VENV)/dev.installed
	$(BIN)/python docs/follow.py five-minutes

## Follow the steps of docs/deploying.md literally: a study in split mode with both parties on this machine.
steps: $(VENV)/dev.installed
	$(BIN)/python docs/follow.py deploying

## Draw the pictures of the documentation again. Look at each of them before you commit it.
figures: $(VENV)/dev.installed
	$(BIN)/python -m docs.figures

## Measure speed; each figure is a ratio of two times from the same run (docs/benchmarks.md).
bench: $(VENV)/dev.installed
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/verified_sums.py
	$(BIN)/python benchmarks/run_cost.py
	$(BIN)/python benchmarks/shuffle_accounting.py
	$(BIN)/python benchmarks/calibration_time.py
	$(BIN)/python benchmarks/design_fuzz.py --cases 5000
	$(BIN)/python benchmarks/design_speed.py
	$(BIN)/python benchmarks/linucb_speed.py
	$(BIN)/python benchmarks/mapped_actions.py
	$(BIN)/python benchmarks/million_actions.py

## Measure 5,000 polling clients under a flood of bad requests and slow sockets, on SQLite and on PostgreSQL.
siege: $(VENV)/dev.installed
	$(BIN)/python benchmarks/siege.py
	$(BIN)/python benchmarks/siege.py --postgresql

## Run studies with 2,000 clients in real processes, for every trust model.
deployed: $(VENV)/dev.installed
	$(BIN)/python benchmarks/deployed_study.py

## Measure the rate of durably stored reports relative to an empty handler, then memory over a million reports,
## then how long 50,000 verified reports take to close, and what 200 open dashboards cost.
load: $(VENV)/dev.installed
	$(BIN)/python benchmarks/service_load.py
	$(BIN)/python benchmarks/service_load.py --reports 1000000
	$(BIN)/python benchmarks/verified_cohort.py
	$(BIN)/python benchmarks/dashboard_load.py

## Run RUNS studies under faults drawn from SEED, then PROCESSES studies with real processes over TLS on SQLite,
## and as many on PostgreSQL, about a minute each. Example: make faults RUNS=20 SEED=7 PROCESSES=1
RUNS ?= 500
SEED ?= 1
PROCESSES ?= 10
faults: $(VENV)/dev.installed
	$(BIN)/python -m tests.faults --runs $(RUNS) --seed $(SEED)
	$(BIN)/python -m tests.faults --processes --runs $(PROCESSES) --seed $(SEED)
	$(BIN)/python -m tests.faults --processes --postgres --runs $(PROCESSES) --seed $(SEED)

## Measure what hostile parties gain: 100,000 plans of a hostile coordinator, one liar in each of 500 studies,
## 10,000 false reports of verified sums, and lying clients in studies of real processes.
liars: $(VENV)/dev.installed
	$(BIN)/python -m tests.service.hostile_plans --plans 100000 --seed $(SEED)
	$(BIN)/python benchmarks/one_liar.py --studies 500
	$(BIN)/python -m tests.vdaf.corruptions --reports 10000 --seed $(SEED)
	$(BIN)/python benchmarks/verified_liars.py --liars 20 --mode verified
	$(BIN)/python benchmarks/verified_liars.py --liars 1 --mode split

## Delete the virtual environment, all results and all caches.
clean:
	rm -rf $(VENV) $(FLOWER) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "dpbandits needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(FLOWER)/installed: pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	timeout 400 $(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
	  -e '.[flower]' pytest psutil
	@touch $@

$(VENV)/run.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot,service]'
	@touch $@

$(VENV)/dev.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/run.installed
