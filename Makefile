SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

##@ General
.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36m<target>\033[0m\n"} \
	  /^[a-zA-Z0-9_-]+:.*##/ {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2} \
	  /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: env
env: $(VENV)/.installed ## Make the Python environment in .venv from the lock file

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Batchwright needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 \
  --custom-compile-command "make lock"

.PHONY: lock
lock: ## Resolve the lock files anew (uv)
	$(BIN)/python -m pip install --quiet uv
	for set in worker: operator:operator gateway:gateway dev:dev; do extra=$${set#*:}; \
	  $(COMPILE) $${extra:+--extra $$extra} --output-file requirements/$${set%%:*}.txt pyproject.toml; done
	for set in build bench conformance uv; do $(COMPILE) --output-file requirements/$$set.txt requirements/$$set.in; done
	$(COMPILE) --override requirements/vllm-overrides.txt --output-file requirements/vllm.txt requirements/vllm.in

##@ Use
# `try` needs little, so it has an environment of its own unless the one for development is there.
TRY_BIN = $(if $(wildcard $(VENV)/.installed),$(VENV),.try/venv)/bin

.PHONY: try
try: ## Run a sample BatchJob on this machine, without Kubernetes: under a minute
	@test -e $(VENV)/.installed || $(MAKE) --no-print-directory .try/.installed
	@rm -rf .try/output
	@$(TRY_BIN)/python hack/try.py

KUBECTL = $(if $(wildcard .cluster/bin/kubectl),.cluster/bin/kubectl,kubectl) --kubeconfig $(or $(KUBECONFIG),.cluster/kubeconfig)
ROLLED_OUT = rollout status --timeout=180s

.PHONY: deploy
deploy: ## Install the resource and the operator into the cluster of .cluster/kubeconfig or KUBECONFIG
	@$(KUBECTL) apply --server-side --force-conflicts -k manifests/base
	@$(KUBECTL) -n batchwright-system rollout restart deployment/batchwright-operator  # the tag stays when an image is built anew
	@$(KUBECTL) -n batchwright-system $(ROLLED_OUT) deployment/batchwright-operator

.PHONY: quickstart
quickstart: deploy ## deploy, and with it an S3 server and a stub model server in batchwright-demo, and the gateway
	@$(KUBECTL) apply --server-side --force-conflicts -k manifests/quickstart
	@$(KUBECTL) -n batchwright-demo rollout restart deployment/model-server
	@$(KUBECTL) -n batchwright-system rollout restart deployment/gateway
	@$(KUBECTL) -n batchwright-demo $(ROLLED_OUT) deployment/s3
	@$(KUBECTL) -n batchwright-demo $(ROLLED_OUT) deployment/model-server
	@$(KUBECTL) -n batchwright-system $(ROLLED_OUT) deployment/gateway

.PHONY: demo
demo: KUBECONFIG = $(CURDIR)/.cluster/kubeconfig
demo: env ## Everything at once: cluster, images, operator, a BatchJob watched to its end; VLLM=1: against a real vLLM
	@$(MAKE) --no-print-directory cluster-up
	@$(MAKE) --no-print-directory images
	@$(MAKE) --no-print-directory quickstart KUBECONFIG=$(KUBECONFIG)
	@$(if $(VLLM),$(MAKE) --no-print-directory vllm-up)
	@KUBECONFIG=$(KUBECONFIG) $(BIN)/python hack/demo.py $(if $(VLLM),--vllm)

.try/.installed: requirements/worker.txt
	@echo "installing Batchwright into .try/venv"
	@mkdir -p .try && $(PYTHON) -m venv .try/venv
	@.try/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/worker.txt
	@.try/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Clients of other projects, for the tests of the gateway: many packages, which uv installs in seconds.
.conformance/.installed: requirements/conformance.txt requirements/uv.txt
	@$(PYTHON) -m venv .conformance
	@.conformance/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@.conformance/bin/uv pip install --quiet --python .conformance --require-hashes --only-binary :all: -r requirements/conformance.txt
	@touch $@

##@ Development
# Tests never touch the cluster that KUBECONFIG happens to name: they install an operator.
TEST_KUBECONFIG = $(abspath $(or $(BATCHWRIGHT_TEST_KUBECONFIG),.cluster/kubeconfig))
ON_TEST_CLUSTER = KUBECONFIG=$(TEST_KUBECONFIG) BATCHWRIGHT_TEST_KUBECONFIG=$(TEST_KUBECONFIG)
STEP = $(MAKE) --no-print-directory

.PHONY: lint
lint: env ## Check format, style, types, import rules, and that what is generated is current
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/mypy hack
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python hack/generate.py --check

.PHONY: generate
generate: env ## Write the CRD and the reference anew from the models
	@$(BIN)/python hack/generate.py

.PHONY: test
test: ## Everything that CI checks; brings up a cluster with the quickstart for it
	+@$(STEP) cluster-ready browser
	+@$(STEP) --jobs=3 --output-sync=target test-code test-worker test-deployed  # each one's output when it ends
	+@$(STEP) test-vllm-short  # by itself: beside all that, a server that computes answers too late

.PHONY: test-code
test-code:
	+@$(STEP) lint
	+@$(STEP) test-unit
	+@$(STEP) test-integration INTEGRATION="$(filter-out %/__pycache__/ $(WORKER_TESTS),$(wildcard tests/integration/*/))"

# Half of all the time. Pytests side by side need temporary files of their own, or they remove one another's.
WORKER_TESTS = tests/integration/worker/
.PHONY: test-worker
test-worker:
	@mkdir -p .pytest_cache
	+@$(STEP) test-integration INTEGRATION=$(WORKER_TESTS) ARGS="--basetemp .pytest_cache/worker $(ARGS)"

.PHONY: test-deployed
test-deployed:
	+@$(STEP) images
	+@$(STEP) quickstart $(ON_TEST_CLUSTER)
	+@$(STEP) test-e2e

.PHONY: test-unit
test-unit: env ## Unit and property tests; ARGS="-k name" goes to pytest
	@$(BIN)/pytest tests/unit tests/property $(ARGS)

.PHONY: test-integration
test-integration: INTEGRATION = tests/integration
test-integration: env cluster-ready browser ## Tests of parts against real servers and a real browser: Kubernetes, S3, HTTP
	@$(ON_TEST_CLUSTER) $(BIN)/pytest $(INTEGRATION) $(ARGS)

.PHONY: test-e2e
test-e2e: env browser .conformance/.installed ## Tests of the whole, on a cluster with the quickstart (make cluster-up images quickstart)
	@mkdir -p .pytest_cache
	@$(ON_TEST_CLUSTER) $(BIN)/pytest tests/e2e -m 'not nodes' --basetemp .pytest_cache/e2e $(ARGS)

# The quickstart keeps to the first node, since what it stores would be lost with the other one.
.PHONY: test-nodes
test-nodes: KUBECONFIG := $(TEST_KUBECONFIG)
test-nodes: env ## A node that is lost in mid-run, on a cluster of two; four minutes, not part of `test`
	@$(STEP) cluster-up NODES=2
	@$(KUBECTL) cordon node-2
	@$(STEP) images
	@$(STEP) quickstart $(ON_TEST_CLUSTER)
	@$(ON_TEST_CLUSTER) $(BIN)/pytest tests/e2e -m nodes $(ARGS)

.PHONY: test-scale
test-scale: env ## A million lines run, 20 million planned, 150,000 by path, a minute of 429: half an hour, 3 GB of disk, nginx; not part of `test`
	@$(BIN)/pytest tests/scale $(ARGS)

# Everything that must not be lost with the second node is deployed before that is opened.
.PHONY: chaos
chaos: KUBECONFIG := $(CURDIR)/.cluster/kubeconfig
chaos: env ## Random kills of everything under 20 BatchJobs, on a cluster of two nodes; half an hour; ARGS="--seed 7"
	@$(STEP) chaos-histories ARGS=
	@$(STEP) cluster-up NODES=2
	@$(KUBECTL) cordon node-2
	@$(STEP) images
	@$(STEP) quickstart KUBECONFIG=$(KUBECONFIG)
	@PYTHONPATH=tests $(BIN)/python -m chaos --report docs/reliability.md $(ARGS)

.PHONY: chaos-histories
chaos-histories: env ## The property test's random histories, twenty times as many: no cluster, some minutes
	@BATCHWRIGHT_HISTORIES=20 $(BIN)/pytest tests/property/test_reconcile.py $(ARGS)

.PHONY: browser
browser: ## Install Debian's Chromium, for the tests of the gateway's page, where it is missing
	@command -v chromium >/dev/null || $(PYTHON) -m hack.cluster browser

.PHONY: pictures
pictures: env browser ## Make the README's pictures of the gateway's page anew; with the font Inter they look as they should
	@PYTHONPATH=tests $(BIN)/python -m pictures

.PHONY: cluster-ready
cluster-ready: KUBECONFIG := $(TEST_KUBECONFIG)
cluster-ready: env
	@$(KUBECTL) get --raw /readyz --request-timeout=5s >/dev/null 2>&1 || $(STEP) cluster-up

.PHONY: bench
bench: env ## Measure beside what else there is; a few minutes, on a quiet machine
	@$(BIN)/python bench/dispatch.py --quick
	@$(BIN)/python bench/plan.py

.PHONY: bench-stragglers
bench-stragglers: env ## How long a job's last lines take, by order and shard size; half an hour (ARGS=--quick: one minute)
	@$(BIN)/python bench/stragglers.py $(ARGS)

.PHONY: bench-concurrency
bench-concurrency: env ## Compare rules for requests in flight on simulated servers; table and plot, a few minutes
	@$(BIN)/python -m bench.concurrency.main --plot docs/concurrency.svg

.PHONY: bench-memory
bench-memory: env ## Memory of a worker with 10,000 and with 1,000,000 lines; ten minutes
	@$(BIN)/python bench/memory.py

.PHONY: bench-recovery
bench-recovery: env ## Kill a worker in mid-run, five times: time to the next request, requests sent twice
	@$(BIN)/python bench/recovery.py

.PHONY: bench-vllm
bench-vllm: env vllm ## Throughput, people and prefix cache on a real vLLM; half an hour, on a quiet machine
	@$(BIN)/python bench/throughput.py
	@$(BIN)/python bench/in_flight.py
	@$(BIN)/python bench/interactive.py --vllm
	@$(BIN)/python bench/prefix_cache.py --lines 600 --prefixes 40

.PHONY: clean
clean: ## Remove what tools and tests leave; the environment and the cluster stay
	@rm -rf .try .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist bench/results
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

-include hack/cluster/cluster.mk
-include hack/vllm/vllm.mk
