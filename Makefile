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

.PHONY: lock
lock: ## Resolve the lock files anew (uv)
	$(BIN)/python -m pip install --quiet uv
	for set in worker: operator:operator dev:dev; do extra=$${set#*:}; \
	  $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 $${extra:+--extra $$extra} \
	    --custom-compile-command "make lock" --output-file requirements/$${set%%:*}.txt pyproject.toml; done

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
quickstart: deploy ## deploy, and with it an S3 server and a stub model server in batchwright-demo
	@$(KUBECTL) apply --server-side --force-conflicts -k manifests/quickstart
	@$(KUBECTL) -n batchwright-demo rollout restart deployment/model-server
	@$(KUBECTL) -n batchwright-demo $(ROLLED_OUT) deployment/s3
	@$(KUBECTL) -n batchwright-demo $(ROLLED_OUT) deployment/model-server

.PHONY: demo
demo: env ## Everything at once: cluster, images, operator, a BatchJob watched to its end, its first results
	@$(MAKE) --no-print-directory cluster-up
	@$(MAKE) --no-print-directory images
	@$(MAKE) --no-print-directory quickstart
	@$(BIN)/python hack/demo.py

.try/.installed: requirements/worker.txt
	@echo "installing Batchwright into .try/venv"
	@mkdir -p .try && $(PYTHON) -m venv .try/venv
	@.try/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/worker.txt
	@.try/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

-include hack/cluster/cluster.mk
