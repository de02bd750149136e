"""One Lease of a namespace."""

from collections.abc import Mapping
from typing import Any

from batchwright.kube import errors
from batchwright.kube.connection import Connection, RawObject, path_of

LEASES = ("coordination.k8s.io/v1", "leases")


class LeaseObject:
    """Reading and writing one Lease. Calls block, no longer than the connection's time limits."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self.namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def read(self) -> RawObject | None:
        """The Lease; None where there is none. Raises KubernetesError."""
        try:
            return self._connection.get(path_of(*LEASES, self.namespace, self.name))
        except errors.NotFound:
            return None

    def create(self, spec: Mapping[str, Any]) -> RawObject:
        """Create it.

        Raises:
            errors.AlreadyExists: somebody was faster.
            errors.NotFound: there is no such namespace.
        """
        return self._connection.create(
            path_of(*LEASES, self.namespace),
            {
                "apiVersion": LEASES[0],
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": dict(spec),
            },
        )

    def replace(self, version: str, spec: Mapping[str, Any]) -> RawObject:
        """Write fields of the spec over this very version; null removes one. What others wrote beside it stays.

        Raises:
            errors.Conflict: it changed since.
            errors.NotFound: it was deleted.
        """
        return self._connection.patch(
            path_of(*LEASES, self.namespace, self.name),
            {"metadata": {"resourceVersion": version}, "spec": dict(spec)},
        )
