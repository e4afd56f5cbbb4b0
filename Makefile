# Everything sets itself up in .venv: a machine needs Python 3.11, make and a package index.

PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check
# What was installed: the program with its figures; that and all tools; the lowest versions that are admitted.
LIGHT := .venv/.light
READY := .venv/.ready
LOWEST := .venv-lowest/.ready

.PHONY: demo test quick check format lint types imports docs wheel coverage lowest fuzz bench clean help

help:  ## Say what there is.
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 18

demo: $(LIGHT)  ## Fit, ask, print a table, write a figure.
	$(BIN)/deepbc demo --out demo

test: $(READY)  ## All tests: unit, contract, property, doctest, README, examples.
	$(BIN)/pytest

quick: $(READY)  ## The tests that take seconds.
	$(BIN)/pytest -m "not slow"

fuzz: $(READY)  ## Thousands of drawn questions, in some ten minutes.
	DRAWN_CASES=5000 $(BIN)/pytest tests/test_drawn.py

check: lint types imports docs wheel test  ## What CI runs.

format: $(READY)  ## Write the code as `lint` wants it.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)  ## Format and style.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)  ## Strict types.
	$(BIN)/mypy

imports: $(READY)  ## Imports run one way.
	$(BIN)/lint-imports

docs: $(READY)  ## Build the site into site/, strictly.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The wheel in a place of its own, outside the tree; what it depends on is borrowed from .venv.
wheel: $(READY)  ## Build the wheel, and try it outside the tree.
	rm -rf dist .venv-wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python -m venv --without-pip .venv-wheel
	$(BIN)/python -m pip --python .venv-wheel/bin/python install --quiet --disable-pip-version-check --no-deps dist/*.whl
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	  "$$(.venv-wheel/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	tree=$$PWD; scratch=$$(mktemp -d); cd "$$scratch" && "$$tree/.venv-wheel/bin/python" -P "$$tree/.ci/smoke.py" "$$tree"; \
	  code=$$?; rm -rf "$$scratch"; exit $$code

coverage: $(READY)  ## Which lines the quick tests run.
	$(BIN)/pytest -m "not slow" --cov --cov-report=term:skip-covered

# Old packages say that what they use of newer ones will go; that is no fault of ours.
lowest: $(LOWEST)  ## The quick tests on the lowest versions that pyproject.toml admits.
	.venv-lowest/bin/pytest -m "not slow" -W ignore::DeprecationWarning

bench: $(READY)  ## Speed, as ratios in one run.
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/mode.py
	$(BIN)/python benchmarks/samples.py
	$(BIN)/python benchmarks/batch.py
	$(BIN)/python benchmarks/sparse.py

clean:  ## Remove what was made.
	rm -rf .venv .venv-lowest .venv-wheel demo dist site .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deepbc needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

$(LIGHT): pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python $(PIP) -c constraints.txt -e '.[plot]'
	touch $@

$(READY): pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	touch $(LIGHT) $@

$(LOWEST): pyproject.toml constraints.txt .ci/lowest.py
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python .ci/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python $(PIP) -c .venv-lowest/lowest.txt -e '.[test]'
	touch $@
