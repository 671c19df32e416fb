# Two commands do everything: `make lab` opens the first notebook, `make test` proves that all of it works.
# What each does is also written in README.md for machines without make.

PYTHONS := $(shell sh tools/find_python.sh)
PYTHON ?= $(firstword $(PYTHONS))
VENV := .venv
TOOLS := .cache/tools
NOX := $(TOOLS)/bin/nox
# JupyterLab refuses root unless told, and in a container there often is nobody else.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: lab test check bench notebooks picture address clean

lab: $(VENV)/.installed  ## build the environment, then open JupyterLab on the first notebook
	$(VENV)/bin/jupyter lab $(AS_ROOT) notebooks/00_start_here.ipynb

test: $(NOX)  ## lint, types, floors, tests, notebooks and browsers, in every environment
	$(NOX)

check: $(NOX)  ## the quick half: lint, types, floors, unit tests on every Python found
	$(NOX) --session lint types unit

bench: $(NOX)  ## measure the speed of everything that promises a speed
	$(NOX) --session bench

notebooks: $(NOX)  ## execute the notebooks again and keep the outputs that nbval compares
	$(NOX) --session notebooks

picture: $(NOX)  ## draw the README's picture from the product
	$(NOX) --session picture

address:  ## write the repository's address from pyproject.toml into badges and setup cells
	$(PYTHON) tools/address.py --write

$(VENV)/.installed: pyproject.toml requirements.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found; install one, or name it: make lab PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/bin/python -m pip install --quiet -r requirements.txt
	touch $@

# nox keeps one environment a session; uv builds each in seconds, which is what makes six of them bearable.
$(NOX): Makefile
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found; install one, or name it: make test PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet "nox>=2024.10.9" "uv>=0.5"
	touch $@

clean:  ## remove environments and caches
	rm -rf $(VENV) .nox .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
