# The commands of the README. Each creates what it needs; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint types pytest docs bench evidence again clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/'

$(VENV)/.base: pyproject.toml evidence/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) 'pip>=25.1'  # the first pip that installs [dependency-groups]
	$(PIP) -e '.[all]' -e ./evidence
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(PIP) --group test
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PIP) --group docs
	@touch $@

$(VENV)/.bench: $(VENV)/.test  # the trained networks are read by the tests' own reader
	$(PIP) --group bench
	@touch $@

demo: $(VENV)/.base  ## install, train two small classifiers on digits, tile a plane through three digits; writes out/demo/index.html
	$(BIN)/python examples/demo.py --out out/demo

test: lint types pytest  ## install with the test extras, then lint, types and tests with warnings as errors

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test  # the other core compiles kernels meanwhile, which both processes of the tests would do otherwise
	$(BIN)/splinescope warmup --quiet >/dev/null & $(BIN)/mypy && wait

pytest: $(VENV)/.test
	sh tests/browser.sh
	$(BIN)/python -m pytest -n 2 --dist worksteal

docs: $(VENV)/.docs  ## build the documentation offline, warnings are errors, into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

bench: $(VENV)/.bench  ## measure speed and memory; rewrites the tables of docs/benchmarks
	for part in tiling rows reach solids space guarantees pictures complexity representation meanfield landscape generative smooth studio; do \
		$(BIN)/python -m benchmarks.$$part || exit 1; done

JOBS ?= 2
KNOWN ?= docs/evidence.json
AGAIN ?= docs/evidence-again.json
evidence: $(VENV)/.base  ## run at full size every experiment that has changed (KNOWN= runs all, in hours); rewrites docs/evidence.md and docs/findings
	$(BIN)/splinescope reproduce --all --jobs $(JOBS) $(if $(KNOWN),--known $(KNOWN)) --out out/evidence
	cp out/evidence/records.json docs/evidence.json
	$(BIN)/python -m splinescope_evidence.framework.pictures out/evidence docs
	$(BIN)/python -m splinescope_evidence.framework.findings docs

again: $(VENV)/.base  ## the same with another seed, for the verdicts that stand beside; rewrites docs/evidence-again.json and then the pages
	$(BIN)/splinescope reproduce --all --seed 1 --jobs $(JOBS) $(if $(KNOWN),--known $(AGAIN)) --out out/evidence-again
	cp out/evidence-again/records.json $(AGAIN)
	$(BIN)/python -m splinescope_evidence.framework.pictures out/evidence-again docs
	$(MAKE) evidence

clean:  ## remove what the commands above made
	rm -rf $(VENV) out docs/_build .pytest_cache .ruff_cache .mypy_cache
	find src evidence -name '*.nb[ci]' -delete  # compiled kernels
