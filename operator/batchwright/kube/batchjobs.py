"""BatchJobs in the cluster."""

from batchwright.api import names
from batchwright.kube.connection import Connection, RawObject, path_of


class BatchJobs:
    """The BatchJobs of one cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, namespace: str, name: str) -> RawObject:
        """One BatchJob. Raises errors.NotFound."""
        return self._connection.get(self._path(namespace, name))

    def list(self, namespace: str | None = None, labels: str | None = None) -> list[RawObject]:
        """The BatchJobs of a namespace, or of all; those that a label selector takes."""
        return self._connection.list(self._path(namespace), {"labelSelector": labels} if labels else None)

    def create(self, namespace: str, manifest: RawObject) -> RawObject:
        """Create a BatchJob. Raises errors.AlreadyExists, errors.Refused with the message of the schema's rules."""
        return self._connection.create(self._path(namespace), manifest)

    def patch_status(self, namespace: str, name: str, uid: str, version: str, changes: RawObject) -> RawObject:
        """Merge changes into the status of this very BatchJob as it was read; null removes a field.

        Raises:
            errors.NotFound: it is gone.
            errors.Conflict: it was changed since, or deleted and made anew under the same name. What follows from an
                older status must not be written over a newer one, which may be final.
        """
        return self._connection.patch(
            self._path(namespace, name, "status"),
            {"metadata": {"uid": uid, "resourceVersion": version}, "status": changes},
        )

    def patch(self, namespace: str, name: str, changes: RawObject) -> RawObject:
        """Merge changes into metadata and spec; for people's tools, never for the controller. With `metadata.uid` in
        them, only into that very BatchJob. Raises errors.NotFound, errors.Conflict, errors.Refused.
        """
        return self._connection.patch(self._path(namespace, name), changes)

    def delete(self, namespace: str, name: str, uid: str | None = None) -> None:
        """Delete a BatchJob; its children follow by garbage collection. Raises errors.NotFound, errors.Conflict."""
        self._connection.delete(self._path(namespace, name), uid=uid)

    def is_installed(self) -> bool:
        """Whether the API server knows the kind."""
        answer = self._connection.get("/apis")
        return any(group.get("name") == names.GROUP for group in answer.get("groups") or [])

    @staticmethod
    def _path(namespace: str | None, *rest: str) -> str:
        name, *subresource = rest or ("",)
        path = path_of(names.API_VERSION, names.PLURAL, namespace, *([name] if name else []))
        return "/".join([path, *subresource])
