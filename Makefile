PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest -n 2 --dist worksteal
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# Real data sets for tests and benchmarks, where they lie beside the project.
export GNNAK_DATA ?= $(abspath $(wildcard ../shared/data))
# Compiled tests are stored in __pycache__, which makes the next run faster.
unexport PYTHONDONTWRITEBYTECODE
# Tests that Triton's interpreter runs.
KERNELS := $(filter-out %_compile.py %_gpu.py,$(wildcard tests/fast/kernels/test_kernels*.py)) \
	tests/fast/layers/test_gated.py tests/fast/layers/test_hop_tables.py \
	tests/fast/layers/test_fused_ppgn.py tests/fast/layers/test_lifted_gine.py \
	tests/fast/layers/test_pair_layers.py tests/fast/layers/test_sswl.py \
	tests/fast/sampling/test_greedy.py tests/fast/test_extraction.py tests/fast/test_padding.py

.PHONY: help setup demo test quick lint types unit slow faults gpu oldest bench tables docs notebooks format clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv with everything in it

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)  ## train a GNN and its uplifted form side by side
	$(BIN)/gnnak demo

test: lint types unit  ## all checks

quick: lint  ## lint, and one case of every light test that starts no program
	$(PYTEST) --quick -m 'not slow and not gpu and not heavy'

lint: $(READY)  ## formatting and lint rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## the type checker
	$(BIN)/mypy

unit: $(READY)  ## unit, property and doc tests
	$(PYTEST) -m 'not slow and not gpu'
	TRITON_INTERPRET=1 $(PYTEST) -m 'not slow' $(KERNELS)

slow: $(READY)  ## the tests that take minutes
	$(PYTEST) -m slow
	$(PYTEST) -m 'hypothesis and not slow and not gpu' --all-examples
	TRITON_INTERPRET=1 CHECK_ACCESSES=1 $(PYTEST) $(KERNELS) tests/fast/test_golden.py

faults: $(READY)  ## kills, damaged files, full disks, threads, hostile files: minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

gpu: $(READY)  ## the tests that need a CUDA device
	$(BIN)/pytest -m gpu

oldest: $(READY)  ## compile all GPU kernels with the oldest Triton that is supported
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target build/oldest triton==3.6.0
	PYTHONPATH=build/oldest $(BIN)/pytest tests/fast/kernels/test_kernels_compile.py \
		tests/fast/sampling/test_greedy_compile.py \
		tests/fast/test_padding.py

bench: $(READY)  ## run the benchmarks and write their records to results/
	$(BIN)/python -m benchmarks.extraction --record
	$(BIN)/python -m benchmarks.subgraph_drop --record
	$(BIN)/python -m benchmarks.wl --record
	$(BIN)/python -m benchmarks.cpu --record
	$(BIN)/python -m benchmarks.published_step --record
	$(BIN)/python -m benchmarks.family --graphs 256 --epochs 1 --record
	$(MAKE) tables

tables: $(READY)  ## render the tables of README and docs from results/
	$(BIN)/python -m benchmarks.tables

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $(DOCS_READY)

docs: $(DOCS_READY)  ## build the documentation in build/docs
	$(BIN)/mkdocs build --strict

notebooks: $(READY)  ## execute the tutorials and rewrite their outputs
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.tools.notebooks

format: $(READY)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what make made
	rm -rf $(VENV) *.egg-info build dist .mypy_cache .pytest_cache .ruff_cache
