# Two commands for a fresh machine: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash
COMPOSE ?= $(shell command -v docker-compose || echo docker compose)
.DEFAULT_GOAL := help

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Heliograph needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python lacks the venv module (on Debian: apt install python3-venv)"; exit 1; }

$(VENV)/.run: requirements.lock | $(VENV)/bin/python
	@echo "Installing into $(VENV) (hashes checked) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.dev: requirements-dev.lock | $(VENV)/bin/python
	@echo "Installing development tools into $(VENV) (hashes checked) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $(VENV)/.run $@

BENCHES := bench bench-ingest bench-query bench-update bench-scale bench-start
.PHONY: help run serve test check lint format types imports evaluate $(BENCHES) floors cases resolution histories faults lock docker

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.run ## start the service, show it at work on the sample documents, go on serving
	@$(BIN)/python -m workers.demo

serve: $(VENV)/.run ## only serve (API and worker in one process)
	@exec $(BIN)/python -m workers.standalone

test: $(VENV)/.dev ## the tests; starts real servers where Java, Maven and redis-server are there
	@$(BIN)/python -m pytest $(ARGS)

check: lint types imports ## lint, format, strict types, import contracts

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(VENV)/.dev ## put the code into its format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

types: $(VENV)/.dev
	@$(BIN)/mypy

imports: $(VENV)/.dev
	@$(BIN)/lint-imports --no-cache

evaluate: $(VENV)/.dev ## measure every mode on every set, write docs/evaluation.md (SETS= MODES= REFERENCE=1 ANEW=1 KEEP=1 PAGE=1 ENCODER=minilm)
	@$(BIN)/python -m tests.bench.evaluation --sets "$(SETS)" --modes "$(MODES)" $(if $(REFERENCE),--reference) \
	  $(if $(ANEW),--anew) $(if $(KEEP),--keep) $(if $(PAGE),--page) $(if $(ENCODER),--encoder $(ENCODER)) $(ARGS)

bench: ## ingestion, queries, updates, growth, start: write docs/performance.md (N= RUNS= STACK= REFERENCE=1 MINUTES= PAGE=1)
bench-ingest: ## CPU and wall time of ingestion beside the model calls alone
bench-query: ## CPU and latency of every mode, alone, with 16 clients, while documents come in
bench-update: ## one document more, less, other; a hundred less
bench-scale: ## growth from 1,000 to 100,000 documents, as far as MINUTES= allow
bench-start: ## until API and worker are ready; memory, imports, size
$(BENCHES): $(VENV)/.dev
	@$(BIN)/python -m tests.bench.performance $(patsubst bench-%,%,$(filter-out bench,$@)) --sizes "$(N)" --stacks "$(STACK)" \
	  $(if $(RUNS),--runs $(RUNS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(REFERENCE),--reference) \
	  $(if $(PAGE),--page) $(ARGS)

floors: $(VENV)/.dev ## floors of retrieval, extraction and scale on the evaluation data (HELIOGRAPH_SHARED)
	@$(BIN)/python -m pytest -m slow --durations=0 $(ARGS)

histories: $(VENV)/.dev ## random histories of users and workers on both graph stores (HISTORIES=)
	@HISTORIES=$(or $(HISTORIES),300) $(BIN)/python -m pytest -q tests/workers/test_histories.py

faults: $(VENV)/.dev ## break the service by seeded schedules (STACK= SEED= RUNS= ONLY=)
	@STACK=$(STACK) SEED=$(SEED) RUNS=$(RUNS) ONLY=$(ONLY) DOCUMENTS=$(DOCUMENTS) PARALLEL=$(PARALLEL) \
	  JSON=$(JSON) $(BIN)/python -m tests.faults

CASES := $(or $(HELIOGRAPH_SHARED),../shared)/cases/reports.jsonl
cases: $(VENV)/.dev ## reported bugs as cases, on the whole service (FILE=other.jsonl, ONLY=ids or areas, STACK=neo4j)
	@$(BIN)/python -m tests.cases.runner --only "$(ONLY)" $(or $(FILE),$(CASES))

resolution: $(VENV)/.dev ## which names are one thing: precision and recall (PAIRS=file for other pairs)
	@$(BIN)/python -m tests.bench.resolution $(PAIRS)

docker: $(VENV)/.dev ## check Dockerfile and compose file without a daemon
	@$(BIN)/hadolint Dockerfile
	@folder=$$(mktemp -d) && trap 'rm -r "$$folder"' EXIT && cp docker-compose.yml "$$folder" \
	  && sed -E 's/^# (NEO4J_PASSWORD|QDRANT_API_KEY)=/\1=unused/' .env.example >"$$folder/.env" \
	  && cd "$$folder" && $(COMPOSE) config --quiet

lock: $(VENV)/.dev ## resolve the dependencies again into hashed requirements
	@$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --quiet -o requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --extra dev --constraint requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --quiet -o requirements-dev.lock
