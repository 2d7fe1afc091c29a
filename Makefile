# Two commands matter: `make run` and `make test`. Both set up .venv from pinned versions first; a second time that is quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# What running needs, and what the tests and the other tools need besides: a stamp for each.
RUNNING := $(VENV)/.running
TOOLS := $(VENV)/.tools
LOG := $(VENV)/install.log
# Bytecode is written when a module is first used; writing all of it here would be a fifth of the size.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --no-compile --constraint constraints.txt
# What the tests need of cellwright itself; without `languages` where its grammars have no build.
EXTRAS ?= all
# Most tests wait for a server, a kernel or a browser, so more of them run at once than there are cores; one works off the five minutes
# with faults, which are mostly waiting, and one what is sent in floods.
TEST_PROCESSES ?= 5

# What needs neither Debian packages nor root; on Windows also no file modes and no signals.
PORTABLE_TESTS := tests/core tests/notebook tests/app/clients/test_jsonc.py tests/app/clients/test_tomledit.py tests/app/test_settings.py
PORTABLE_TESTS += tests/test_code.py tests/test_requirements.py
ifneq ($(OS),Windows_NT)
PORTABLE_TESTS += tests/app/clients/test_entries.py tests/app/clients/test_install_command.py tests/test_distribution.py
endif

QUICK_TESTS := tests/core tests/notebook tests/workers tests/app/clients/test_jsonc.py tests/app/clients/test_tomledit.py tests/app/test_settings.py \
	tests/context/scanner/test_ignore.py tests/thinking/templates tests/test_code.py tests/test_requirements.py

.PHONY: run test proofs test-portable install tools check quick lint format bench docs dist constraints clean help

help:
	@echo "make run      set up and serve over HTTP with JupyterLab beside it, in ./workspace; prints addresses and a snippet"
	@echo "make test     set up and run the whole test-suite"
	@echo "make proofs   the long ones: an hour with faults, a million requests, ceilings of memory"
	@echo "make test-portable  the part of it that needs neither Debian packages nor root"
	@echo "make install  set up only: .venv/bin/cellwright"
	@echo "make check    lint and the quick tests, in about a minute: for every commit"
	@echo "make lint     ruff and pyright (strict) over src, tests and bench"
	@echo "make bench    measure our paths against their floor"
	@echo "make docs     write the generated parts of docs/ and server.json again, and the site of it into site/"
	@echo "make constraints  pin the newest versions that suit every supported Python"
	@echo "make dist     build what is released: sdist, wheel and the bundle for desktop programs"

install: $(RUNNING)

tools: $(TOOLS)

$(RUNNING): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cellwright needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing cellwright into $(VENV), about a minute; the log is $(LOG)"
	@{ $(INSTALL) --upgrade pip && $(INSTALL) --editable '.[lab]'; } > $(LOG) 2>&1 || { tail -n 60 $(LOG); exit 1; }
	@touch $@

$(TOOLS): $(RUNNING)
	@echo "installing the tools for tests, about a minute"
	@$(INSTALL) --editable '.[$(EXTRAS)]' --group dev > $(LOG) 2>&1 || { tail -n 60 $(LOG); exit 1; }
	@touch $@

run: install
	@mkdir -p workspace && test -e workspace/try-me.ipynb || cp examples/try-me.ipynb workspace/
	$(BIN)/cellwright serve --lab --root workspace

test: tools
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "not alone and not proof"
	$(BIN)/python -m pytest -m "alone and not proof" tests/adversarial

# An hour with faults, a million requests, ten minutes of hostile texts, ceilings of memory, and other examples of all properties: some hours.
proofs: tools
	CELLWRIGHT_TEST_SOAK_SECONDS=3600 CELLWRIGHT_TEST_FUZZ=1000000 CELLWRIGHT_TEST_COSTS=all CELLWRIGHT_TEST_NOTEBOOKS=all \
		$(BIN)/python -m pytest -m "alone or more or proof"
	for round in 1 2 3 4 5 6 7 8 9 10; do CELLWRIGHT_TEST_CHANCE=1 $(BIN)/python -m pytest -q -m hypothesis || exit 1; done

test-portable: tools
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) $(PORTABLE_TESTS)

# For every commit: what needs no server, no kernel and no browser, beside the linters.
check: tools
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint quick

quick:
	$(BIN)/python -m pytest -q $(QUICK_TESTS)

lint: tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: tools
	$(BIN)/python bench/run.py

docs: tools
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/thinking/make.py
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=docs $(BIN)/mkdocs build --strict --quiet

# uv keeps the versions that are there unless they no longer fit; `make constraints UPGRADE=--upgrade` takes the newest.
constraints: tools
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11.2 --all-extras --group dev --no-header --no-annotate $(UPGRADE) \
		pyproject.toml --output-file constraints.txt

dist: tools
	rm -rf dist
	$(BIN)/uv build --out-dir dist
	npx --yes @anthropic-ai/mcpb@2.1.2 pack distribution/mcpb dist/cellwright.mcpb

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis
