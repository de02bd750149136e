"""Asking the API server whose a token is, and what its owner may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchwright.api import names
from batchwright.kube.connection import Connection

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 (a path)
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Whose a token is, in all that the API server's authorizers may ask for."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class AccessReviews:
    """TokenReview and SubjectAccessReview. Calls block, and raise KubernetesError where there is no answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def owner(self, token: str) -> TokenOwner | None:
        """Whose a token is; None where the API server doesn't know it.

        No audience is named, so a token must be meant for the API server, as those are that kubectl and pods use.
        """
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = self._connection.create(_TOKEN_REVIEWS, body).get("status") or {}
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return None
        return _owner(user)

    def allows(self, owner: TokenOwner, verb: str, namespace: str) -> bool:
        """Whether they may do this with the BatchJobs of a namespace."""
        spec = {
            "user": owner.username,
            "uid": owner.uid,
            "groups": list(owner.groups),
            "extra": {name: list(values) for name, values in owner.extra},
            "resourceAttributes": {
                "group": names.GROUP,
                "resource": names.PLURAL,
                "verb": verb,
                "namespace": namespace,
            },
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = self._connection.create(_ACCESS_REVIEWS, body).get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True


def _owner(user: Mapping[str, Any]) -> TokenOwner:
    extra = user.get("extra") or {}
    return TokenOwner(
        username=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=tuple(str(group) for group in user.get("groups") or ()),
        extra=tuple(sorted((str(name), tuple(str(value) for value in values)) for name, values in extra.items())),
    )
