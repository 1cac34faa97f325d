# make run     install everything and run the pipeline on the sample input
# make test    install everything, lint, check types, run the tests
# make test-all  the same with more processes, kills, sizes and kinds of each
# make report  draw reports/index.html from what has run
# make recipes install the frameworks of docs/recipes.md, and run each program of that page, also on several ranks
# make docs    build these documents as a site with search: build/site/index.html, which needs no network
# make api     render the docstrings: build/api/index.html
# make newest  run the tests on Python 3.13 with the newest versions of all, in an environment of their own
# make bench   measure everything on made-up input: bench/results/table.md
# make bench-quick   measure the ratios that matter most in two minutes, and fail if one is far below the committed one
# make bench-loader   compare the loader with other libraries, installed in an environment of their own
VENV := .venv
PYTHON := $(firstword $(shell command -v python3.11 python3))
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1
# Nothing is compiled when it is installed: without bytecode every process would compile torch and DVC again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run report recipes docs api test test-all lint types unit newest bench bench-quick bench-loader clean

run: $(VENV)/installed
	dvc repro
	outofcore committed
	@echo "reports/index.html shows what was made; docs/getting-started.md continues with your own data"

report: $(VENV)/installed
	python stages/report.py

recipes: $(VENV)/installed
	pip install --quiet --no-compile --constraint requirements.lock --editable ".[dev,recipes]"
	pytest tests/docs/test_recipes.py -m "" -rs

docs: $(VENV)/installed
	pip install --quiet --no-compile --constraint requirements.lock --editable ".[dev,docs]"
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "build/site/index.html is the first page"

api: $(VENV)/installed
	python stages/api.py

test: lint types unit

lint: $(VENV)/installed
	ruff check .
	ruff format --check .

types: $(VENV)/installed
	mypy

unit: $(VENV)/installed
	pytest -n auto --dist loadgroup

test-all: lint types
	pytest -n auto --dist loadgroup -m "not apart"

# The tests of dvc repro take the versions of requirements.lock.
newest: newest/installed
	PATH="$(CURDIR)/newest/bin:$$PATH" newest/bin/pytest -n auto --dist loadgroup --ignore tests/pipeline

bench: $(VENV)/installed
	python bench/run.py

bench-quick: $(VENV)/installed
	python bench/quick.py

bench-loader: $(VENV)/installed peers/installed
	python bench/run.py --only loading_chess loading_text loading_frames in_place --peers peers/bin/python

# annbatch and insitubatch need Python 3.12. It is run to be found: there may be a wrapper of that name that starts nothing.
peers/installed: bench/rivals/peers.txt
	$$(python3.12 -c "import sys; print(sys.executable)" 2>/dev/null || echo $(PYTHON)) -m venv peers
	peers/bin/pip install --quiet --requirement bench/rivals/peers.txt
	touch $@

# Versions come from requirements.lock; platform parts that it does not name (torch's own libraries) come with torch.
# Modules are compiled when they are first imported: most never are.
$(VENV)/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint requirements.lock --editable ".[dev]"
	touch $@

newest/installed: pyproject.toml requirements-3.13.lock
	python3.13 -m venv newest
	newest/bin/pip install --quiet --no-compile --constraint requirements-3.13.lock --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) newest peers .mypy_cache .ruff_cache .pytest_cache
