##@ vLLM
VLLM_TOOL := $(PYTHON) -m hack.vllm

.PHONY: vllm
vllm: ## Install a real vLLM for the CPU, with tiny random models, into the user's cache: 6 GB, some minutes
	@$(VLLM_TOOL) install

.PHONY: vllm-up
vllm-up: vllm cluster-ready ## Run that vLLM in the local cluster, two Deployments in batchwright-vllm
	@$(VLLM_TOOL) up

.PHONY: vllm-down
vllm-down: ## Remove it from the cluster; the installation stays
	@$(VLLM_TOOL) down

# Two minutes, without a cluster.
.PHONY: test-vllm-short
test-vllm-short: env
	@if $(VLLM_TOOL) installed >/dev/null; then $(BIN)/pytest tests/vllm -m vllm_short $(ARGS); \
	  else echo "left out: tests against a real vLLM, which is not installed (make vllm)"; fi

.PHONY: test-vllm
test-vllm: env ## All tests against the real vLLM, on this machine and in the cluster, with all that they need; not part of `test`
	+@$(STEP) vllm cluster-ready
	+@$(STEP) images
	+@$(STEP) quickstart $(ON_TEST_CLUSTER)
	+@$(STEP) vllm-up
	@$(ON_TEST_CLUSTER) $(BIN)/pytest tests/vllm $(ARGS)
