"""LLM batch inference as a Kubernetes resource."""
