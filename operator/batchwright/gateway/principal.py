"""Who asks: a user of a tenant, or an administrator."""

from dataclasses import dataclass
from typing import Literal

Verb = Literal["get", "list", "create", "patch", "delete"]
"""What a route does, in Kubernetes' words: what the holder of a token must be allowed to do with BatchJobs."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, and for whom.

    A tenant is a namespace of the cluster: its BatchJobs run there, with its storage credentials. `namespace` is None
    for an administrator who didn't choose one, and sees all of them.
    """

    user: str
    """A name for the log and for BatchJobs' annotations; it opens nothing by itself."""
    namespace: str | None
    admin: bool = False
    via: Literal["api-key", "token"] = "api-key"
