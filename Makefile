# Every target sets up its own virtual environment on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The development environment has everything but what drives a GPU; the training one only what a user needs.
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.dev-ready
DOCS_READY := $(VENV)/.docs-ready
GPU_READY := $(VENV)/.gpu-ready
CUDA_READY := $(VENV)/.cuda-ready
CUDA_LIBS := $(VENV)/cuda
TRITON_READY := $(VENV)/.triton-ready
TRITON_LIBS := $(VENV)/triton
COUNT_KERNELS = $(BIN)/python benchmarks/kernels_without_gpu.py 3-8sz refil --pack 0.5 --precision bf16 --top 0 \
    --max-kernels 262 --max-megabytes 2844

.PHONY: train test test-slow test-gpu lint format docs

train: $(READY)
	$(BIN)/refil train 3m --method vdn_pqn --method.size 64 --method.memory 64 --envs 64 --minibatches 4 --average 0.95 \
	    --epsilon-fraction 0.2 --steps 1000000 --eval-every 50000 --replay $(ARGS)

test: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 -m "not slow" $(ARGS)

# What takes longer, and a guard: an update of REFIL on a GPU, compiled without one, needs 255 kernels and 2,762 MB with
# either compiler of kernels.
test-slow: $(DEV_READY) $(CUDA_READY) $(TRITON_READY)
	PYTHONPATH=$(TRITON_LIBS) $(BIN)/python -m pytest -n 2 -m slow $(ARGS)
	PYTHONPATH=$(CUDA_LIBS) REFIL_KERNEL_COMPILER=Pallas $(COUNT_KERNELS)
	PYTHONPATH=$(CUDA_LIBS):$(TRITON_LIBS) REFIL_KERNEL_COMPILER=Triton $(COUNT_KERNELS)

test-gpu: $(GPU_READY)
	$(BIN)/python -m pytest -m gpu $(ARGS)

lint: $(DEV_READY)
	$(BIN)/ruff check refil tests benchmarks
	$(BIN)/ruff format --check refil tests benchmarks
	$(BIN)/pyright

format: $(DEV_READY)
	$(BIN)/ruff check --fix refil tests benchmarks
	$(BIN)/ruff format refil tests benchmarks

# The documentation as a site in site/; ARGS="serve" shows it on a local port while you edit.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --strict --quiet)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "refil needs Python 3.11 or newer; try make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)

$(READY): $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[plot]'
	touch $@

$(DEV_READY): $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(READY)

$(DOCS_READY): $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

$(GPU_READY): $(DEV_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,cuda]'
	touch $@

# XLA's compiler for GPUs, in a folder of its own: in the environment, JAX would look for a GPU every time it starts.
$(CUDA_READY): $(DEV_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(CUDA_LIBS) -c constraints.txt \
	    jax-cuda13-plugin jax-cuda13-pjrt
	touch $@

# Triton compiles kernels for any GPU without one. It is large, so the environment for `make test` does without it.
$(TRITON_READY): $(DEV_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(TRITON_LIBS) -c constraints.txt triton
	touch $@
