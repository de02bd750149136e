"""Who asks, and how often: API keys, Kubernetes tokens, rates, the audit log.

An administrator makes API keys, whose hashes lie in the Secret `gateway-keys`; everything else comes from the cluster's
own users and rights.
"""
