# demo: the main job.  test: everything.  lint: ruff and pyright.  bench: ratios, measured side by side.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRA ?= cpu

# PyTorch's CPU wheels: from where PIP_FIND_LINKS says, else from PyTorch's own index.
ifneq ($(PIP_FIND_LINKS),)
export UV_FIND_LINKS := $(PIP_FIND_LINKS)
else ifeq ($(EXTRA),cpu)
BACKEND := --torch-backend cpu
endif

.PHONY: demo test lint bench

demo: $(STAMP)
	$(BIN)/opentinker run experiments/kuhn_poker/experiment.toml

test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(STAMP)
	for name in walker_overhead lora_kernels learner_tokens policy_memory publish_latency asynchrony; do \
		OMP_NUM_THREADS=1 $(BIN)/python experiments/benchmarks/$$name.py || exit 1; \
	done

$(STAMP): pyproject.toml constraints.txt overrides.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(BACKEND) \
		--constraint constraints.txt --override overrides.txt --editable ".[$(EXTRA),games,smollm2,dev]"
	touch $(STAMP)
