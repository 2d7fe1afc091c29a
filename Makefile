# Two commands matter: `make run` and `make test`. Both set up .venv from pinned versions first; a second time that is quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.installed
EXTRAS := all
# Most tests wait for a server, a kernel or a browser, so more of them run at once than there are cores.
TEST_PROCESSES ?= 3

.PHONY: run test install lint format bench docs clean help

help:
	@echo "make run      set up and serve over HTTP with JupyterLab beside it, in ./workspace; prints addresses and a snippet"
	@echo "make test     set up and run the whole test-suite"
	@echo "make install  set up only: .venv/bin/cellwright"
	@echo "make lint     ruff and pyright (strict) over src, tests and bench"
	@echo "make bench    measure our paths against their floor"
	@echo "make docs     write the generated parts of docs/ and server.json again"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cellwright needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --upgrade pip
	$(PIP) install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]' --group dev
	@touch $(STAMP)

run: install
	@mkdir -p workspace && test -e workspace/try-me.ipynb || cp examples/try-me.ipynb workspace/
	$(BIN)/cellwright serve --lab --root workspace

test: install
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python bench/run.py

docs: install
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/thinking/make.py
	$(BIN)/python docs/site.py

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis
