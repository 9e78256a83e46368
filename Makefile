# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed
	@$(BIN)/coworkenv demo

test: $(VENV)/.installed-for-tests lint
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/pyright

# Speed against the budgets; takes minutes and wants a quiet machine.
bench: $(VENV)/.installed-for-tests
	$(BIN)/python -m pytest tests/bench --benchmark-only --benchmark-columns=median,iqr,rounds

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-for-tests: pyproject.toml constraints-cpu.txt | $(VENV)/bin/python
	@echo "installing for tests (once; CPU torch included) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e '.[dev,models,train]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build *.egg-info
