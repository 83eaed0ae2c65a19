# Two commands on a fresh machine: make demo, make test. The rest is for daily work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help venv demo test lint unit lab-test bench docs clean

help:
	@echo 'make demo    set up, boot a lab of three real systemd hosts, roll out on it, show the result (root on Linux;'
	@echo '             anywhere else: plan, gates and diff of recorded nodes)'
	@echo 'make test    set up, lint, types, unit, property and lab tests (lab tests need root on Linux)'
	@echo 'make venv    only .venv, with .venv/bin/fleet and .venv/bin/pyinfra'
	@echo 'make bench   this project beside ansible-core and mitogen on the same lab (long)'
	@echo 'make docs    write docs/gates.md anew from the code'
	@echo 'make clean   every trace: labs with their interfaces, mounts and processes, caches, .venv'

venv: $(VENV)/.complete

$(VENV)/.complete: requirements.txt pyproject.toml
	@PYTHON='$(PYTHON)' sh lab/make-venv.sh $(VENV)
	@touch $@

demo: venv
	@$(BIN)/python -m cli.demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict fleet

test: lint
	$(BIN)/python -m pytest

unit: venv
	$(BIN)/python -m pytest -m 'not lab'

lab-test: venv
	$(BIN)/python -m pytest -m lab

bench: venv
	$(BIN)/python -m bench.rollout

docs: venv
	$(BIN)/python -m cli.docs

clean:
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m cli.clean; fi
	@rm -rf $(VENV) .lab .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info pyinfra-debug.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'clean: no lab, no cache, no .venv is left'
