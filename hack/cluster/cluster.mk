##@ Cluster
CLUSTER := $(PYTHON) -m hack.cluster

.PHONY: cluster-up
cluster-up: ## Bring up a real Kubernetes on this machine, without Docker; NODES=1, 2 or 3
	@$(CLUSTER) up $(if $(NODES),--nodes $(NODES))

.PHONY: cluster-down
cluster-down: ## Stop the cluster and remove every trace of it
	@$(CLUSTER) down

.PHONY: kind-up
kind-up: ## Bring up a Kubernetes with Docker and kind instead
	@$(CLUSTER) kind-up

.PHONY: images
images: ## Build the images and bring them into the cluster's nodes
	@$(CLUSTER) images

.PHONY: node-kill
node-kill: ## Kill a node as a power cut would; NODE=n
	@$(CLUSTER) kill-node $(or $(NODE),$(error say which one: NODE=n))

.PHONY: node-revive
node-revive: ## Start a killed node again; NODE=n
	@$(CLUSTER) revive-node $(or $(NODE),$(error say which one: NODE=n))
