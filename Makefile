# One door: `make` prints what there is. `.ci/run` is what CI runs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS := .tools/bin
RECIPE := values/recipes/gemma3-27b-gsm8k.yaml
SITE := tests/site.yaml
STACK = -f values/accelerators/$(1).yaml -f $(RECIPE) -f $(SITE)
LAYERS := network storage raycluster grpo-job
# The end-to-end tests that have a mark, all of them without ONLY.
MARKED = $(ONLY:%=-m %)
# The tests start the programs many hundred times; without its bytecode each start would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-full check lowest lint verify docs generate goldens bench recall learn scan tools e2e e2e-node planted dist clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[render,dev]'
	@touch $@

demo: $(STAMP) ## Render and validate the Gemma 3 27B stack for B200 and H200, and show the differences
	@mkdir -p build/demo
	@for accelerator in b200 h200; do \
	  $(BIN)/grpo lint $(call STACK,$$accelerator) && \
	  $(BIN)/grpo render all $(call STACK,$$accelerator) > build/demo/$$accelerator.yaml && \
	  echo "rendered: build/demo/$$accelerator.yaml, $$(grep -c '^kind:' build/demo/$$accelerator.yaml) objects" || exit 1; \
	done
	@$(BIN)/grpo diff --accelerator b200 --accelerator h200 -f $(RECIPE) -f $(SITE)
	@printf '\nNext: source $(BIN)/activate && grpo init    (asks for your machine and model, and writes your values files)\n'

test: $(STAMP) ## Run the telling part of the tests in minutes: offline, no cluster, no Docker, no helm binary
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not full and not recall"

test-full: $(STAMP) ## Run the exhaustive rest of the tests: every pair of options, every recipe on every machine
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile=full -m "full and not recall"

check: lint verify docs test test-full lowest ## Everything that CI asks of a commit, but e2e

lowest: ## Run the toolkit's tests with the lowest versions that pyproject.toml allows
	@test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check --constraint tests/lowest.txt --editable '.[render,dev]'
	$(VENV)-lowest/bin/python -m pytest -q -n 2 --dist worksteal -m "not full and not recall" tests/postrender tests/grpo \
	  tests/cli/test_{check,commands,completion,help,plan,terminal}.py

lint: $(STAMP) ## Format, lint, types, layers, workflows, charts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@# Each suite has a conftest of its own.
	@for suite in tests/e2e tests/e2e/planted tests/e2e/node; do echo "mypy $$suite"; \
	  MYPYPATH=$$suite:tests/e2e:tests/e2e/planted:tests/e2e/planted/image:tests/jobs $(BIN)/mypy --explicit-package-bases $$suite/*.py tests/e2e/harness || exit 1; done
	$(BIN)/lint-imports --no-cache
	$(BIN)/zizmor --offline --quiet --no-progress .github/workflows
	@if [ -x $(TOOLS)/actionlint ]; then $(TOOLS)/actionlint && echo "actionlint: clean"; \
	elif [ -n "$$GRPO_REQUIRE_TOOLS" ]; then echo "actionlint was not run: make tools" >&2; exit 1; \
	else echo "SKIPPED: actionlint, because there is no $(TOOLS)/actionlint (make tools)" >&2; fi
	@if [ -x $(TOOLS)/helm4 ]; then \
	  for helm in helm3 helm4; do for layer in $(LAYERS); do for accelerator in b200 h200; do \
	    $(TOOLS)/$$helm lint --strict --quiet charts/$$layer $(call STACK,$$accelerator) 2>/dev/null || { echo "$$helm lint charts/$$layer ($$accelerator) failed"; exit 1; }; \
	  done; done; done; echo "helm lint --strict: clean"; \
	elif [ -n "$$GRPO_REQUIRE_TOOLS" ]; then echo "helm lint was not run: make tools" >&2; exit 1; \
	else echo "SKIPPED: helm lint --strict, because there is no $(TOOLS)/helm4 (make tools)" >&2; fi

verify: $(STAMP) ## Fail when a generated file or a golden is stale
	$(BIN)/python -m grpo.generate --check
	$(BIN)/python -m pytest -q tests/charts/test_goldens.py

docs: $(STAMP) ## Build the documentation site in build/site; a broken link is an error
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m grpo.generate.site build/pages
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d build/doctrees -c docs build/pages build/site
	@echo "built: build/site/index.html"

generate: $(STAMP) ## Write schemas, chart defaults and the tutorial
	$(BIN)/python -m grpo.generate

goldens: $(STAMP) ## Rewrite the goldens; review them as a diff
	$(BIN)/python -m pytest -q tests/charts/test_goldens.py --write-goldens

bench: $(STAMP) ## Measure against the anchors; prints ratios (needs make tools; ROUNDS=1: only try every script)
	$(BIN)/python bench/lint.py $(ROUNDS)
	$(BIN)/python bench/check.py $(ROUNDS)
	$(BIN)/python bench/render.py $(ROUNDS)
	$(BIN)/python bench/dead_values.py $(ROUNDS)
	$(BIN)/python bench/post_render.py $(ROUNDS)

recall: $(STAMP) ## Compare lint with what the real frameworks said of every mutated recipe; prints the share it catches
	$(BIN)/python -m pytest -q -s -m recall tests/recall tests/plan

learn: $(STAMP) ## Let NeMo RL's own GRPO learn on this CPU (FRAMEWORK=verl: verl's; PODS=1: in pods; DEVICE=cuda: on one GPU; STALL=1: a worker hangs; SOURCES=DIR: NeMo RL's tree; SEED=1; needs root on Linux)
	FRAMEWORK="$(or $(FRAMEWORK),nemo-rl)" SOURCES="$(SOURCES)" DEVICE="$(or $(DEVICE),cpu)" tools/learn.sh
ifdef PODS
	tools/build.sh
	tools/node.sh
	tools/learn-image.sh
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[render,dev,e2e]'
endif
	$(BIN)/python examples/learn-on-cpu/learn.py --framework $(or $(FRAMEWORK),nemo-rl) $(if $(PODS),--in-pods) $(if $(DEVICE),--device $(DEVICE)) $(if $(STALL),--stall) --seed $(or $(SEED),1)

scan: $(STAMP) ## Scan the stacks of make demo with checkov; a finding without a reason in docs/howto/security.md is an error
	@test -x build/scan/venv/bin/pip || $(PYTHON) -m venv build/scan/venv
	build/scan/venv/bin/pip install --quiet --disable-pip-version-check checkov==3.3.30
	@for accelerator in b200 h200; do \
	  $(BIN)/grpo render all $(call STACK,$$accelerator) --namespace rl > build/scan/$$accelerator.yaml || exit 1; \
	done
	$(BIN)/python -m tests.scan build/scan/venv/bin/checkov build/scan/*.yaml

tools: ## Build pinned Helm 3, Helm 4, linters and a control plane, install PyTorch, into .tools/ (needs Go; 10 minutes, once)
	tools/build.sh
	tools/torch.sh

e2e: $(STAMP) tools ## Install the stack on a real control plane with the real operators; no container runs (ONLY=ci: what CI runs of it; root on Linux)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[render,dev,e2e]'
	$(BIN)/python tests/e2e/run.py $(MARKED)

e2e-node: $(STAMP) tools ## The same on real nodes: kubelets, containerd, pods that run (ONLY=ci; root on Linux; not in a container)
	tools/node.sh
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[render,dev,e2e]'
	$(BIN)/python tests/e2e/node/run.py $(MARKED)

planted: $(STAMP) tools ## Plant failures into runs on a real Ray (ONLY=ci; SEEDS=1; KINDS=NAME,…, outcomes: one of each; LANES=1: clusters at once; PODS=1: in real pods; root on Linux)
	tools/ray.sh
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[render,dev,e2e]'
	$(if $(PODS),tools/node.sh && $(BIN)/python tests/e2e/node/run.py tests/e2e/node/test_planted.py \
	  --seeds 1-$(or $(SEEDS),1) --kinds="$(KINDS)",seq $(or $(LANES),1) | xargs -P $(or $(LANES),1) -I% \
	  $(BIN)/python tests/e2e/planted/run.py $(MARKED) --seeds 1-$(or $(SEEDS),1) --kinds="$(KINDS)" --part %/$(or $(LANES),1))
	$(if $(KINDS)$(ONLY),,$(BIN)/python tests/e2e/planted/table.py)

dist: ## Build the wheel, the four chart packages and the SBOM into dist/, with tools that are pinned by their hashes
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement tools/release/build.txt
	build/release/bin/pip wheel --quiet --disable-pip-version-check --no-index --no-build-isolation --no-deps --wheel-dir dist .
	PYTHONPATH=. build/release/bin/python -m grpo.generate.release package dist
	build/release/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-file dist/grpo-charts.cdx.json tools/release/runtime.txt
	@ls dist

clean: ## Remove what was built, but not .tools/
	rm -rf $(VENV) $(VENV)-lowest build dist e2e-logs .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
