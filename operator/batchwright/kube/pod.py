"""What a process in a pod is told about where it runs."""

from pathlib import Path

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def own_namespace(service_account: Path = _SERVICE_ACCOUNT) -> str | None:
    """The namespace of the pod that this process runs in; None outside of a pod, or in one without a token."""
    try:
        return (service_account / "namespace").read_text().strip() or None
    except OSError:
        return None
