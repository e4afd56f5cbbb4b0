# Everything sets itself up in .venv: a machine needs Python 3.11, make and a package index.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test quick check format lint types imports bench clean

demo: $(READY)  ## Fit, ask, print a table, write a figure.
	$(BIN)/deepbc demo --out demo

test: $(READY)  ## All tests: unit, contract, property, doctest, README, examples.
	$(BIN)/pytest

quick: $(READY)  ## The tests that take seconds.
	$(BIN)/pytest -m "not slow"

check: lint types imports test  ## What CI runs.

format: $(READY)  ## Write the code as `lint` wants it.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

bench: $(READY)  ## Speed, as ratios in one run.
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/mode.py
	$(BIN)/python benchmarks/samples.py
	$(BIN)/python benchmarks/batch.py

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deepbc needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
