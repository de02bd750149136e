"""The children of a BatchJob: its ConfigMap, its Jobs and their pods; and what the cluster says about them.

The rules for 404 and 409 stand here, once:
- creating: a name that is taken by our own child is a success, whoever created it first; one that is being deleted
  means wait; one of another owner is a refusal.
- deleting: what is gone, or was made anew under its name, needs no deletion.
"""

from batchwright.api import names
from batchwright.kube import errors
from batchwright.kube.connection import STRATEGIC_MERGE_PATCH, Connection, RawObject, path_of

JOBS = ("batch/v1", "jobs")
PODS = ("v1", "pods")
CONFIG_MAPS = ("v1", "configmaps")
EVENTS = ("v1", "events")


class Children:
    """Reading and writing the children of BatchJobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def jobs(self, namespace: str, owner_uid: str) -> list[RawObject]:
        """The Jobs of a BatchJob."""
        return self._connection.list(path_of(*JOBS, namespace), _selector(owner_uid))

    def pods(self, namespace: str, owner_uid: str) -> list[RawObject]:
        """The pods of a BatchJob's Jobs. Read after the Jobs, so that a finished Job's pods are seen finished."""
        return self._connection.list(path_of(*PODS, namespace), _selector(owner_uid))

    def config_map(self, namespace: str, name: str) -> RawObject | None:
        """A ConfigMap that the controller wrote, by its name; None where there is none."""
        try:
            return self._connection.get(path_of(*CONFIG_MAPS, namespace, name))
        except errors.NotFound:
            return None

    def create_job(self, namespace: str, owner_uid: str, manifest: RawObject) -> None:
        """Create a Job once.

        Raises:
            errors.BeingDeleted: one of this name is on its way out.
            errors.Refused: quota, admission, an invalid field, or the name is another owner's.
        """
        self._create(JOBS, namespace, owner_uid, manifest)

    def create_config_map(self, namespace: str, owner_uid: str, manifest: RawObject) -> None:
        """Create a ConfigMap once; raises as `create_job` does."""
        self._create(CONFIG_MAPS, namespace, owner_uid, manifest)

    def update_config_map(self, namespace: str, name: str, uid: str, data: dict[str, str]) -> None:
        """Replace entries of this very ConfigMap. Raises errors.NotFound, errors.Conflict."""
        self._connection.patch(path_of(*CONFIG_MAPS, namespace, name), {"metadata": {"uid": uid}, "data": data})

    def suspend_job(self, namespace: str, name: str, uid: str, *, suspended: bool) -> None:
        """Suspend this very Job and mark it as suspended by us, or resume it and take the mark away."""
        mark = {names.ANNOTATION_SUSPENDED: "true" if suspended else None}
        self._connection.patch(
            path_of(*JOBS, namespace, name),
            {"metadata": {"uid": uid, "annotations": mark}, "spec": {"suspend": suspended}},
        )

    def delete_job(self, namespace: str, name: str, uid: str) -> None:
        """Delete this very Job and, in the background, its pods."""
        try:
            self._connection.delete(path_of(*JOBS, namespace, name), uid=uid)
        except (errors.NotFound, errors.Conflict):
            return

    def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete this very pod; it has its grace period."""
        try:
            self._connection.delete(path_of(*PODS, namespace, name), uid=uid)
        except (errors.NotFound, errors.Conflict):
            return

    def mark_pod_failed(self, namespace: str, name: str, uid: str, message: str, now: str) -> None:
        """Declare a pod Failed by disruption, as pod garbage collection does for the pods of a node that is gone."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByBatchwright",
            "message": message,
            "lastTransitionTime": now,
        }
        try:
            self._connection.patch(
                f"{path_of(*PODS, namespace, name)}/status",
                {"metadata": {"uid": uid}, "status": {"phase": "Failed", "conditions": [condition]}},
                STRATEGIC_MERGE_PATCH,
            )
        except (errors.NotFound, errors.Conflict):
            return

    def events_of(self, namespace: str, uid: str) -> list[RawObject]:
        """The Events about one object."""
        return self._connection.list(path_of(*EVENTS, namespace), {"fieldSelector": f"involvedObject.uid={uid}"})

    def node(self, name: str) -> RawObject | None:
        """A node; None where it is gone."""
        try:
            return self._connection.get(path_of("v1", "nodes", None, name))
        except errors.NotFound:
            return None

    def namespace_is_terminating(self, name: str) -> bool:
        """Whether a namespace is being deleted; False where we may not know."""
        try:
            namespace = self._connection.get(path_of("v1", "namespaces", None, name))
        except errors.Refused:
            return False
        except errors.NotFound:
            return True
        return bool(namespace["metadata"].get("deletionTimestamp"))

    def cluster_identity(self) -> str:
        """The UID of the namespace kube-system, which names a cluster for as long as it lives."""
        namespace = self._connection.get(path_of("v1", "namespaces", None, "kube-system"))
        return str(namespace["metadata"]["uid"])

    def _create(self, kind: tuple[str, str], namespace: str, owner_uid: str, manifest: RawObject) -> None:
        name = str(manifest["metadata"]["name"])
        try:
            self._connection.create(path_of(*kind, namespace), manifest)
        except errors.AlreadyExists:
            self._accept_existing(kind, namespace, name, owner_uid)

    def _accept_existing(self, kind: tuple[str, str], namespace: str, name: str, owner_uid: str) -> None:
        what = f"{kind[1]} {namespace}/{name}"
        try:
            existing = self._connection.get(path_of(*kind, namespace, name))
        except errors.NotFound as error:
            raise errors.BeingDeleted(f"{what} has just been deleted") from error
        metadata = existing["metadata"]
        if metadata.get("deletionTimestamp"):
            raise errors.BeingDeleted(f"{what} is being deleted")
        owners = [owner["uid"] for owner in metadata.get("ownerReferences") or [] if owner.get("controller")]
        if owners != [owner_uid]:
            raise errors.Refused(f"{what} exists and belongs to somebody else: delete or rename it", status=409)


def _selector(owner_uid: str) -> dict[str, str]:
    return {"labelSelector": f"{names.LABEL_BATCHJOB_UID}={owner_uid}"}
