"""Events: what `kubectl describe` shows under a BatchJob."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from batchwright.api import names
from batchwright.kube import errors
from batchwright.kube.connection import Connection, path_of

COMPONENT = "batchwright-operator"
_MAX_MESSAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """The BatchJob that an Event is about."""

    namespace: str
    name: str
    uid: str


class Events:
    """Writes Events."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def post(
        self, subject: Subject, severity: Literal["Normal", "Warning"], reason: str, message: str, now: datetime
    ) -> None:
        """Post an Event. One that was already posted (same subject, reason and moment) isn't posted again."""
        moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        digest = hashlib.sha256(f"{subject.uid}/{reason}/{now.isoformat()}".encode()).hexdigest()[:16]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.name[:200].rstrip('.-')}.{digest}", "namespace": subject.namespace},
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
            "type": severity,
            "reason": reason,
            "message": message.encode()[:_MAX_MESSAGE_BYTES].decode(errors="ignore"),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            self._connection.create(path_of("v1", "events", subject.namespace), body)
        except errors.AlreadyExists:
            return
