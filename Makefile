# Everything runs from .venv in this checkout, which every target makes first. Set-up installs exactly
# the bytes whose hashes uv.lock has, from whatever index the machine is set to; the lock names none.

BIN := .venv/bin
ARGS ?=
MINUTES ?= 2
# One process more than cores (tests/conftest.py); ARGS="-n 0" for one in all.
FAST := -n auto --dist worksteal -m "not slow and not interop"
# No dice: the order of tests, of sets and of trio's tasks, and hypothesis' examples, are the same in every run.
# No wait for a disk either: check-slow runs the same tests twice on the disk.
FIXED := PYTHONHASHSEED=0 scripts/in-memory $(BIN)/pytest -p no:randomly $(FAST)
SLOW := -m "slow or interop" --timeout 600 -n 2 --dist worksteal
SOURCES := sessiond clients tests
SCHEMAS := jsonschema:protocol.schema.json openrpc:protocol.openrpc.json typescript:clients/typescript/protocol.d.ts
# A venv that was copied with its folder would run the code of the folder it came from.
ifneq ($(shell cat .venv/made-in 2>/dev/null),$(shell pwd -P))
$(shell rm -f .venv/ready-*)
endif
RUN := .venv/ready-run
ALL := .venv/ready-all

# Tests are rewritten by pytest and compiled: once, and not in each process of each run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-agents test pythons elsewhere luck hesitation check lint mypy pyright check-slow torture siege fuzz mutants bench schema fix lock bare-root clean

help:
	@echo 'make demo        four programs on one session, without sessiond and with it; ARGS=--tree'
	@echo 'make demo-agents  an agent in Python and one in TypeScript on one session, killed and resumed; ARGS="--seconds 300"'
	@echo 'make test        the tests; make test ARGS="-k torn tests/unit" for some of them'
	@echo 'make pythons     make test with every Python of this machine, 3.11 or newer, in clones'
	@echo 'make elsewhere   the same tests on a stand-in for macOS: no fdatasync, no inotify, no /proc'
	@echo 'make luck        the same tests in random order, with examples that nobody has looked at'
	@echo 'make hesitation  make luck with worker threads that answer late'
	@echo 'make check       what every commit passes: format, lint, types, layers, spelling, tests'
	@echo 'make check-slow  processes, torture, clients of other makes, and make luck'
	@echo 'make torture     attack a real daemon, then prove that nothing was lost; MINUTES=10 SEED=7'
	@echo 'make siege       kill daemons that share a PostgreSQL server, and the server; MINUTES=10 SEED=7 ARGS="--daemons 4"'
	@echo 'make mutants     plant known bugs in a copy, and see the tests find each; ARGS="NAME NAME"'
	@echo 'make fuzz        mutated frames, files, parameters and answers; MINUTES=10, SEED=7 to see one again'
	@echo 'make bench       measurements against the goals'
	@echo 'make stuck-client  200,000 appends beside a stopped subscriber, seven pairs (ten minutes)'
	@echo 'make crowd       1,000 subscribers of one session, 1,000 appends'
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

demo: $(RUN)
	@$(BIN)/python -m tests.demo.demo $(ARGS)

demo-agents: $(ALL)
	@$(BIN)/python -m tests.demo.agents $(ARGS)

test: $(RUN)
	@$(FIXED) $(ARGS)

pythons:
	scripts/pythons all

elsewhere: $(RUN)
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest -p tests.elsewhere -p no:randomly $(FAST) $(ARGS)

luck: $(RUN)
	@$(BIN)/pytest $(FAST) --hypothesis-profile=luck $(ARGS)

hesitation: $(RUN)
	@$(BIN)/python -m pytest -p tests.hesitation $(FAST) --hypothesis-profile=luck $(ARGS)

lint: $(ALL)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/codespell
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory -j2 --output-sync=target mypy pyright

mypy pyright: $(ALL)
	$(BIN)/$@

check: lint
	$(FIXED) $(ARGS)

check-slow: $(ALL)
	$(BIN)/pytest $(SLOW) $(ARGS)
	@$(MAKE) --no-print-directory elsewhere
	@$(MAKE) --no-print-directory luck

torture: $(RUN)
	@$(BIN)/python -m tests.torture.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

siege: $(ALL)
	@$(BIN)/python -m tests.postgresql.siege --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: $(ALL)
	@$(BIN)/python tests/mutants/run.py $(ARGS)

fuzz: $(RUN)
	@$(BIN)/python -m tests.fuzz.run $(MINUTES) $(SEED)

bench: $(ALL)
	@$(BIN)/python tests/bench/run.py $(ARGS)

.PHONY: stuck-client crowd
stuck-client: $(RUN)
	@$(BIN)/python -m tests.crowd.run stuck $(ARGS)

crowd: $(RUN)
	@$(BIN)/python -m tests.crowd.run many $(ARGS)

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
