"""Single entries of a Secret, which others may write to at the same time."""

import base64
import binascii
from collections.abc import Mapping

from batchwright.kube import errors
from batchwright.kube.connection import Connection, RawObject, path_of

SECRETS = ("v1", "secrets")
_TRIES = 3


class SecretObject:
    """Reading and writing one Secret. Calls block, and raise KubernetesError beside what they name."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self.namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def read(self) -> dict[str, bytes] | None:
        """The entries; None where there is no such Secret. An entry that isn't base64 is empty."""
        try:
            found = self._connection.get(path_of(*SECRETS, self.namespace, self.name))
        except errors.NotFound:
            return None
        return {name: _decoded(value) for name, value in (found.get("data") or {}).items()}

    def write(self, entries: Mapping[str, bytes | None], labels: Mapping[str, str]) -> None:
        """Write entries, or remove those that are None, and leave all others; make the Secret where it is missing.

        labels: of a Secret that is made.

        Raises:
            errors.NotFound: there is no such namespace.
            errors.Refused: no permission, or the Secret is immutable.
        """
        data = {name: None if value is None else base64.b64encode(value).decode() for name, value in entries.items()}
        for _ in range(_TRIES):
            try:
                self._connection.patch(path_of(*SECRETS, self.namespace, self.name), {"data": data})
            except errors.NotFound:
                try:
                    self._connection.create(path_of(*SECRETS, self.namespace), self._manifest(data, labels))
                except errors.AlreadyExists:  # somebody else made it just now
                    continue
            return
        raise errors.Conflict(f"Secret {self} is made and deleted all the time")

    def _manifest(self, data: Mapping[str, str | None], labels: Mapping[str, str]) -> RawObject:
        return {
            "apiVersion": SECRETS[0],
            "kind": "Secret",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": dict(labels)},
            "type": "Opaque",
            "data": {name: value for name, value in data.items() if value is not None},
        }


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error:
        return b""
