# Everything runs from .venv in this checkout, which every target makes first. Set-up installs exactly
# the bytes whose hashes uv.lock has, from whatever index the machine is set to; the lock names none.

BIN := .venv/bin
ARGS ?=
MINUTES ?= 10
# No dice: the order of tests, of sets and of trio's tasks, and hypothesis' examples, are the same in every run.
# No wait for a disk either. One process more than cores (tests/conftest.py); ARGS="-n 0" for one in all.
FIXED := PYTHONHASHSEED=0 scripts/in-memory $(BIN)/python -m pytest -p no:randomly -n auto --dist worksteal
FAST := -m "not slow and not interop and not search"
PLATFORM := -m "platform and not slow and not interop and not search"
# What the gate runs of real processes, and of clients of other makes.
PROCESSES := -m "slow and not interop and not search" --timeout 600
SOURCES := sessiond clients tests
SCHEMAS := jsonschema:protocol.schema.json openrpc:protocol.openrpc.json typescript:clients/typescript/protocol.d.ts
# A venv that was copied with its folder would run the code of the folder it came from.
ifneq ($(shell cat .venv/made-in 2>/dev/null),$(shell pwd -P))
$(shell rm -f .venv/ready-*)
endif
RUN := .venv/ready-run
ALL := .venv/ready-all
TESTS := .venv/ready-tests

# Tests are rewritten by pytest and compiled: once, and not in each process of each run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-agents test check lint mypy pyright platforms processes clients mutants search torture siege fuzz stuck-client crowd bench schema fix lock bare-root clean

help:
	@echo 'make demo        four programs on one session, without sessiond and with it; ARGS=--tree'
	@echo 'make demo-agents  an agent in Python and one in TypeScript on one session, killed and resumed; ARGS="--seconds 300"'
	@echo 'make test        the tests; make test ARGS="-k torn tests/unit" for some of them'
	@echo 'make check       the gate, which decides a landing: lint, test, platforms, processes, clients, planted bugs'
	@echo 'make lint        format, style, layers, spelling, types'
	@echo 'make platforms   what depends on the system or the Python: a stand-in for macOS, the oldest and the newest Python'
	@echo 'make processes   real processes, kills, faults of the disk and of the system, a PostgreSQL server'
	@echo 'make clients     each client of ours and of other makes against a daemon'
	@echo 'make mutants     plant known bugs in a copy, and see the tests find each; ARGS="NAME NAME"'
	@echo 'make search      what is drawn by dice or takes long; MINUTES=30 SEED=7, PART=torture, PART=interop SLICE=1/2'
	@echo '                 parts: luck hesitation drawn torture siege fuzz vanishing fleet crowd greedy; interop long clocks trio elsewhere pythons mutants'
	@echo 'make bench       measurements against the goals'
	@echo 'make stuck-client  200,000 appends beside a stopped subscriber, seven pairs (ten minutes)'
	@echo 'make schema      write what is generated from the types of the protocol'
	@echo 'make fix         format and mend what can be mended by a program'
	@echo 'make lock        resolve the dependencies again; ARGS="--upgrade" for newer ones'
	@echo 'make bare-root   test and demo in a bare Debian root (needs root and debootstrap)'
	@echo 'make clean       remove what was made here, .venv too'

$(RUN): uv.lock pyproject.toml scripts/set-up
	@scripts/set-up test
	@touch $@

$(ALL): uv.lock pyproject.toml scripts/set-up
	@scripts/set-up test lint interop bench extras
	@touch $@ $(RUN)

$(TESTS): $(RUN)
	@scripts/set-up compiled-tests
	@touch $@

demo: $(RUN)
	@$(BIN)/python -m tests.demo.demo $(ARGS)

demo-agents: $(ALL)
	@$(BIN)/python -m tests.demo.agents $(ARGS)

test: $(TESTS)
	@$(FIXED) $(FAST) $(ARGS)

check: $(ALL)
	@scripts/lanes lint test platforms processes clients mutants-changed

# In CI mypy keeps what it found for the packages of this uv.lock, which are most of its work.
ifdef CI
export MYPY_CACHE_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sessiond-ci/mypy-$(shell sha256sum uv.lock | cut -c -12)
endif

lint: $(ALL)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/codespell
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory -j3 --output-sync=target mypy pyright collected

mypy pyright: $(ALL)
	$(BIN)/$@

.PHONY: collected
collected: $(ALL)
	@scripts/set-up compiled-tests
	@touch $(TESTS)

platforms: $(ALL)
	@$(FIXED) -p tests.elsewhere $(PLATFORM) $(ARGS)
	@scripts/pythons ends

.PHONY: platform
platform: $(RUN)
	@$(FIXED) $(PLATFORM) $(ARGS)

processes: $(ALL)
	@$(FIXED) $(PROCESSES) $(ARGS)

clients: $(ALL)
	@$(BIN)/python -m tests.interop.changed $(ARGS)

mutants: $(ALL)
	@scripts/in-memory $(BIN)/python -m tests.mutants.run $(ARGS)

.PHONY: mutants-changed
mutants-changed: $(ALL)
	@scripts/in-memory $(BIN)/python -m tests.mutants.run --changed --most 40 --seconds 120 --jobs 4

search: $(ALL)
	@$(BIN)/python -m tests.search $(PART) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(SLICE),--slice $(SLICE)) --args '$(ARGS)'

# The names that these parts had before `make search`.
torture siege fuzz crowd:
	@$(MAKE) --no-print-directory search PART=$@

bench: $(ALL)
	@$(BIN)/python tests/bench/run.py $(ARGS)

stuck-client: $(RUN)
	@$(BIN)/python -m tests.crowd.run stuck $(ARGS)

schema: $(RUN)
	@for one in $(SCHEMAS); do \
	$(BIN)/sessiond schema --format "$${one%%:*}" >.venv/schema && mv .venv/schema "$${one#*:}" || exit 1; \
	done
	@$(BIN)/python -m sessiond.schema

fix: $(ALL)
	$(BIN)/python scripts/unasync
	$(BIN)/ruff check --fix --exit-zero $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

lock: $(RUN)
	scripts/lock $(ARGS)

bare-root:
	scripts/bare-root $(ARGS)

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
