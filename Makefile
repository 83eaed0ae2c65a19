# Two commands on a fresh machine: make demo, make test. The rest is for daily work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

SECONDS ?= 60

.PHONY: help venv demo test test-systems test-engine lint unit lab-test fuzz bench docs recorded clean

help:
	@echo 'make demo      set up, boot a lab of three real systemd hosts, roll out on it, show the result (root on Linux;'
	@echo '               anywhere else: plan, gates and diff of recorded nodes)'
	@echo 'make test      set up, lint, types, unit, property and lab tests (lab tests need root on Linux)'
	@echo 'make test-systems  the tests that make nodes of bare machines, Debian 12 and 13, with all their packages'
	@echo 'make test-engine  install vLLM built for CPU and test against it (Linux; 3.5 GB once, at most 25 minutes)'
	@echo 'make venv      only .venv, with .venv/bin/fleet and .venv/bin/pyinfra'
	@echo 'make fuzz      every parser, SECONDS=60 each, by coverage (atheris; Linux on x86-64)'
	@echo 'make bench     this project beside ansible-core and mitogen on the same lab (long)'
	@echo 'make docs      write docs/gates.md anew from the code'
	@echo 'make recorded  record the nodes of inventory/recorded anew, from a lab (root on Linux)'
	@echo 'make clean     remove every trace of this checkout: labs with interfaces, mounts and processes, caches, .venv'

venv: $(VENV)/.complete

$(VENV)/.complete: requirements.txt pyproject.toml lab/make-venv.sh
	@PYTHON='$(PYTHON)' sh lab/make-venv.sh $(VENV)
	@touch $@

demo: venv
	@$(BIN)/python -m cli.demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict fleet

test: lint
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'not engine and not systems'

test-systems: venv
	$(BIN)/python -m pytest -m systems

test-engine: venv
	$(BIN)/python -m pytest -m engine

unit: venv
	$(BIN)/python -m pytest -m 'not lab and not engine'

lab-test: venv
	$(BIN)/python -m pytest -m 'lab and not systems'

fuzz: venv
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS)

bench: venv
	$(BIN)/python -m bench.rollout

docs: venv
	$(BIN)/python -m cli.docs

recorded: venv
	$(BIN)/python -m cli.record

clean:
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m cli.clean; \
	elif grep -qs '"$(CURDIR)/.lab/' /run/vllm-fleet-lab/*/lab.json; then \
	    echo 'a lab of this folder runs, and .venv, which can end it, is gone: make venv, then make clean' >&2; exit 1; fi
	@rm -rf $(VENV) .lab .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info pyinfra-debug.log verified bench/.venv bench/results
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'clean: .venv, .lab and caches of this folder are gone'
