# `make run` and `make test` need Python 3.11+ and make, nothing else. Where a C compiler is,
# look-ups are compiled; where none is, they are Python, and the tests of it are skipped.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

# Byte code is kept whatever the shell says: each worker, and each command that a test starts, would
# compile every source anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-slow test-random check fix docs bench lock clean

run: $(READY)  ## the demo: embedded Redis, API and worker under synthetic traffic, kept alive
	$(BIN)/sirocco demo --stay

# One more than there are cores, for they wait for servers a good part of their time, and four at
# most: each starts Redis servers and services of its own. They keep the order of the tests, so that
# fixtures of modules are made once, and who has none left takes some of another's.
CORES_AND_ONE := $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
WORKERS := -n $(CORES_AND_ONE) --dist worksteal

# To look at branches costs a third more: `make test COVERAGE=true`, as the landing does.
TRACED := $(if $(COVERAGE),$(BIN)/coverage run,$(BIN)/python)

test: $(READY)  ## every test but the slow ones, on up to four cores
	$(if $(COVERAGE),$(BIN)/coverage erase)
	$(TRACED) -m pytest $(WORKERS) -m "not slow"
	$(if $(COVERAGE),$(BIN)/coverage combine -q)
	$(if $(COVERAGE),$(BIN)/coverage report)

test-slow: $(READY)  ## what is marked slow: killed services, browsers, benchmarks, research
	$(BIN)/python -m pytest $(WORKERS) -m slow

test-random: $(READY)  ## tests by drawn examples, with new ones each time, and more of them
	$(BIN)/python -m pytest $(WORKERS) -m "hypothesis and not slow" --hypothesis-profile random --timeout 1200

check: $(READY)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(READY)  ## what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## the pages as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(READY)  ## every benchmark; an hour, on an idle machine
	$(BIN)/python -m benchmarks

LOCK := $(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 \
    --no-annotate --custom-compile-command "make lock" -q

lock: $(READY)  ## pin every dependency again, with hashes, for every platform
	$(BIN)/python -m pip install -q uv
	$(LOCK) pyproject.toml --extra embedded --extra pictures --extra tracing --group dev \
	    -o requirements.lock
	$(LOCK) pyproject.toml --extra tracing --group build -c requirements.lock \
	    -o requirements-runtime.lock
	$(LOCK) --group pyproject.toml:deploy -c requirements.lock -o requirements-deploy.lock
	$(LOCK) --group pyproject.toml:s3 -o requirements-s3.lock

clean:
	rm -rf $(VENV) .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): requirements.lock pyproject.toml clients/python/pyproject.toml clients/python/sirocco_client/_look_up.c
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sirocco needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@echo "installing what sirocco needs into $(VENV): a minute or two, once"
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-compile \
	    --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -e . -e clients/python
	touch $@
