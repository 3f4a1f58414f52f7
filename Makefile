# make test: everything that needs no GPU (with one, test/gpu too).   make demo: a matmul and a ReLU become one kernel.
# The first run makes .venv; a later one installs only what pyproject.toml changed.

PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

# Tests run side by side: one thread each, and one process that compiles, which takes 1.6 s to start.
export INFERNO_WORKERS ?= 1
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
export HF_HUB_OFFLINE ?= 1
# glibc overwrites memory that is freed, so that an operation that is read after it was erased ends the process every time, not now and then.
export MALLOC_PERTURB_ ?= 165
# What Python compiled of the sources is kept, whatever the environment says: without, a process that compiles takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test lint lit pytest demo clean

test: lint lit pytest

lint: $(STAMP)
	$(BIN)/ruff check --quiet --output-format concise .

lit: $(STAMP)
	$(BIN)/lit -sv -j $(JOBS) test

# Each process has tests that follow each other, which often compile the same operations.
pytest: $(STAMP)
	$(BIN)/pytest -q -n $(JOBS) --dist worksteal

demo: $(STAMP)
	$(BIN)/python -m inferno.tools.demo

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and apart: which build of it (CPU, CUDA) is the machine's matter, and one that is there stays.
$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -c 'import importlib.util as u; raise SystemExit(not u.find_spec("torch"))' || $(BIN)/python -m pip install -q '$(TORCH)'
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

clean:
	rm -rf build *.egg-info .pytest_cache .ruff_cache
