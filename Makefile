# Every target sets up its own virtual environment on first use and is instant after that.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The development environment has everything but what drives a GPU; the training one only what a user needs.
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.dev-ready
GPU_READY := $(VENV)/.gpu-ready

.PHONY: train test test-gpu lint format

train: $(READY)
	$(BIN)/refil train group_matching --env.agents 3 --env.cells 5 --env.horizon 8 --seeds 5 --steps 20000 --eval-every 2000 $(ARGS)

test: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-gpu: $(GPU_READY)
	$(BIN)/python -m pytest -m gpu $(ARGS)

lint: $(DEV_READY)
	$(BIN)/ruff check refil tests docs benchmarks
	$(BIN)/ruff format --check refil tests docs benchmarks

format: $(DEV_READY)
	$(BIN)/ruff check --fix refil tests docs benchmarks
	$(BIN)/ruff format refil tests docs benchmarks

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "refil needs Python 3.11 or newer; try make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)

$(READY): $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[plot]'
	touch $@

$(DEV_READY): $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(READY)

$(GPU_READY): $(DEV_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,cuda]'
	touch $@
