# Everything from a fresh machine with Python 3.11 to 3.13 and make: `make demo`, `make test`.
# The first target that runs creates .venv and installs into it, once.

SHELL := /bin/bash
VENV ?= .venv
TORCH ?= torch==2.13.0
SUPPORTED = import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(SUPPORTED)' 2>/dev/null && echo $$p && break; done)
RUN = $(VENV)/bin/python -m
READY = $(VENV)/.ready
QUICK = -n 2 --dist loadfile -q --first-cases --seconds-a-file 0.1 -m "not slow" \
	tests/unit tests/golden

.DEFAULT_GOAL := help
.PHONY: help setup demo test deep quick coverage nets lint docs bench clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## create .venv and install everything into it

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "minitorch2 needs Python 3.11, 3.12 or 3.13"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --upgrade pip
	$(RUN) pip install --quiet '$(TORCH)'
	$(RUN) pip install --quiet --editable '.[triton,halide,demo,test,docs,bench,lint]'
	touch $@

demo: $(READY)  ## a pretrained encoder and a GPT, eagerly and compiled (ARGS="--peer --quick")
	$(RUN) minitorch2 demo $(ARGS)

test: $(READY)  ## the tests, the pages' code blocks included (ARGS="-k fusion")
	OMP_NUM_THREADS=1 $(RUN) pytest -n 2 --dist loadfile -m "not slow" $(ARGS)

deep: $(READY)  ## the tests that are marked slow, which `make test` leaves out
	OMP_NUM_THREADS=1 $(RUN) pytest -n 2 --dist loadfile -m slow tests $(ARGS)

quick: $(READY)  ## of each file the first tests, about two minutes in all
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=quick $(RUN) pytest $(QUICK) $(ARGS)

coverage: $(READY)  ## the share of lines that the quick tests run; fails below the floor
	mkdir -p build/coverage && rm -f build/coverage/*
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=quick $(RUN) coverage run -m pytest $(QUICK) $(ARGS)
	$(RUN) coverage combine -q
	$(RUN) coverage report

nets: $(READY)  ## random programs against eager, on two cores (ARGS="--minutes 5 --only caches")
	$(RUN) tests.nets $(ARGS)

lint: $(READY)  ## ruff, mypy, import-linter, plain language, lines by floor
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports
	$(RUN) lint.language
	$(RUN) lint.budget

docs: $(READY)  ## the site, in docs/_build/html; warnings and broken links are errors
	$(RUN) sphinx -q -W --keep-going docs docs/_build/html
	$(RUN) docs.check_links docs/_build/html

bench: $(READY)  ## all benchmarks, beside torch.compile
	for suite in kernels models overhead compile_time; do $(RUN) benchmarks $$suite --peer || exit 1; done

clean:  ## remove what the other targets made
	rm -rf $(VENV) docs/_build docs/reference build dist demo-output
	git clean -fqx benchmarks/results  # stored results stay
