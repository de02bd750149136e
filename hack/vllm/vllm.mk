##@ vLLM
VLLM_TOOL := $(PYTHON) -m hack.vllm

.PHONY: vllm
vllm: ## Install a real vLLM for the CPU, with tiny random models, into the user's cache: 6 GB, some minutes
	@$(VLLM_TOOL) install
