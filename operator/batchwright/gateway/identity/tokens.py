"""Kubernetes tokens: whose they are and what they may do, as the API server says, kept for a minute.

A token is never kept, only its hash. What is kept delays a token's end and the withdrawal of rights by as long.
"""

import hashlib
import re
import time
from collections.abc import Callable
from typing import Final, Protocol

from batchwright.gateway.identity.ttl_cache import TtlCache
from batchwright.gateway.principal import Verb
from batchwright.kube.access_reviews import TokenOwner

OWNER_SECONDS: Final = 60.0
"""How long it is known whose a token is."""
RIGHT_SECONDS: Final = 30.0
"""How long it is known that somebody may do something."""
REFUSAL_SECONDS: Final = 10.0
"""How long it is known that a token is unknown, or that somebody may not: less, for who has just been let in."""
KEPT: Final = 4096
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LONGEST: Final = 16_384
_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):[^:]+")


class Reviews(Protocol):
    """The API server's own judgement (`kube.access_reviews.AccessReviews`). Methods raise KubernetesError."""

    def owner(self, token: str) -> TokenOwner | None:
        """Whose a token is; None where nobody's."""

    def allows(self, owner: TokenOwner, verb: str, namespace: str) -> bool:
        """Whether they may do this with the BatchJobs of a namespace."""


class Tokens:
    """Asks the API server, not more often than it must."""

    def __init__(self, reviews: Reviews, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviews = reviews
        self._owners: TtlCache[bytes, TokenOwner] = TtlCache(KEPT, clock=clock)
        # Of their own, so that a stream of made-up tokens doesn't push the good ones out.
        self._unknown: TtlCache[bytes, bool] = TtlCache(KEPT, clock=clock)
        self._rights: TtlCache[tuple[TokenOwner, Verb, str], bool] = TtlCache(KEPT, clock=clock)
        self._refusals: TtlCache[tuple[TokenOwner, Verb, str], bool] = TtlCache(KEPT, clock=clock)

    def owner(self, token: str) -> TokenOwner | None:
        """Whose a token is; None where nobody's. Raises KubernetesError where the API server doesn't answer."""
        digest = hashlib.sha256(token.encode()).digest()
        known = self._owners.get(digest)
        if known is not None or self._unknown.get(digest):
            return known
        found = self._reviews.owner(token)
        if found is None:
            self._unknown.put(digest, True, REFUSAL_SECONDS)
        else:
            self._owners.put(digest, found, OWNER_SECONDS)
        return found

    def allows(self, owner: TokenOwner, verb: Verb, namespace: str) -> bool:
        """Whether somebody may do this in a namespace. Raises KubernetesError where the API server doesn't answer."""
        question = (owner, verb, namespace)
        if self._rights.get(question):
            return True
        if self._refusals.get(question):
            return False
        allowed = self._reviews.allows(owner, verb, namespace)
        kept, seconds = (self._rights, RIGHT_SECONDS) if allowed else (self._refusals, REFUSAL_SECONDS)
        kept.put(question, True, seconds)
        return allowed


def looks_like_jwt(text: str) -> bool:
    """Whether it can be a token of a service account or of an identity provider: nothing else is sent to the API
    server, so that what somebody mistook for a key doesn't leave the gateway.
    """
    return len(text) <= _LONGEST and _JWT.fullmatch(text) is not None


def own_namespace(owner: TokenOwner) -> str | None:
    """The namespace of a service account; None for people."""
    form = _SERVICE_ACCOUNT.fullmatch(owner.username)
    return form[1] if form else None
