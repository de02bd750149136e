"""A real Kubernetes of one to three nodes on one Linux machine, without Docker."""
