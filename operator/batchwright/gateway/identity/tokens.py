"""Kubernetes tokens: whose they are and what they may do, as the API server says, kept for a minute.

A token is never kept, only its hash. What is kept delays a token's end and the withdrawal of rights by as long.

Each token that isn't known costs a request to the API server, and anybody can make tokens up. So what can't be one, or
has ended, is refused here; and the others are asked about at a bounded rate, before which those go that were let in
before: the same token, and then another one that says it is of the same account, as when it was renewed. Such a claim
can be made up too, by who knows the account, and then fills that account's bucket alone.
"""

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, Protocol

from batchwright.gateway import errors
from batchwright.gateway.identity.buckets import Buckets
from batchwright.gateway.identity.jwt import Claims, read_claims
from batchwright.gateway.identity.ttl_cache import TtlCache
from batchwright.gateway.principal import Verb
from batchwright.kube.access_reviews import TokenOwner

OWNER_SECONDS: Final = 60.0
"""How long it is known whose a token is."""
RIGHT_SECONDS: Final = 30.0
"""How long it is known that somebody may do something."""
REFUSAL_SECONDS: Final = 10.0
"""How long it is known that a token is unknown, or that somebody may not: less, for who has just been let in."""
REMEMBERED_SECONDS: Final = 86_400.0
"""How long it is known that a token, or its account, was let in once. It opens nothing: it says who is asked about
first."""
STRANGERS_PER_SECOND: Final = 5.0
STRANGERS_AT_ONCE: Final = 50.0
"""Tokens that were never let in, all together: so often the API server is asked about them."""
ACCOUNT_PER_SECOND: Final = 1.0
ACCOUNT_AT_ONCE: Final = 10.0
"""Tokens of one account that was let in before, beyond those."""
RIGHTS_PER_SECOND: Final = 5.0
RIGHTS_AT_ONCE: Final = 100.0
"""Questions of what one account may do, in which namespaces ever its requests name."""
KEPT: Final = 4096
_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):[^:]+")


class Reviews(Protocol):
    """The API server's own judgement (`kube.access_reviews.AccessReviews`). Methods raise KubernetesError."""

    def owner(self, token: str) -> TokenOwner | None:
        """Whose a token is; None where nobody's."""

    def allows(self, owner: TokenOwner, verb: str, namespace: str) -> bool:
        """Whether they may do this with the BatchJobs of a namespace."""


class Tokens:
    """Asks the API server, not more often than it must. Safe to use from several threads."""

    def __init__(
        self,
        reviews: Reviews,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """clock: seconds, from any moment on. now: seconds since the epoch."""
        self._reviews = reviews
        self._now = now
        self._owners: TtlCache[bytes, TokenOwner] = TtlCache(KEPT, clock=clock)
        # Of their own, so that a stream of made-up tokens doesn't push the good ones out.
        self._unknown: TtlCache[bytes, bool] = TtlCache(KEPT, clock=clock)
        self._let_in: TtlCache[bytes, bool] = TtlCache(KEPT, clock=clock)
        self._accounts: TtlCache[bytes, bool] = TtlCache(KEPT, clock=clock)
        self._strangers: Buckets[None] = Buckets(1, clock=clock)
        self._renewals: Buckets[bytes] = Buckets(KEPT, clock=clock)
        self._questions = _Questions()
        self._rights: TtlCache[tuple[TokenOwner, Verb, str], bool] = TtlCache(KEPT, clock=clock)
        self._refusals: TtlCache[tuple[TokenOwner, Verb, str], bool] = TtlCache(KEPT, clock=clock)
        self._askers: Buckets[TokenOwner] = Buckets(KEPT, clock=clock)

    def owner(self, token: str) -> TokenOwner | None:
        """Whose a token is; None where nobody's.

        Raises:
            ApiError: 429, too many that aren't known come in.
            KubernetesError: the API server doesn't answer.
        """
        claims = read_claims(token)
        if claims is None or claims.has_ended(self._now()):
            return None
        digest = hashlib.sha256(token.encode()).digest()
        if (known := self._owners.get(digest)) is not None:
            return known
        # Who sends a new token with many requests at once is asked about once.
        with self._questions.alone(digest):
            known = self._owners.get(digest)
            if known is not None or self._unknown.get(digest):
                return known
            self._admit(digest, claims)
            return self._asked(token, digest, claims)

    def _asked(self, token: str, digest: bytes, claims: Claims) -> TokenOwner | None:
        found = self._reviews.owner(token)
        if found is None:
            self._unknown.put(digest, True, REFUSAL_SECONDS)
        else:
            self._owners.put(digest, found, OWNER_SECONDS)
            self._let_in.put(digest, True, REMEMBERED_SECONDS)
            self._accounts.put(claims.identity, True, REMEMBERED_SECONDS)
        return found

    def _admit(self, digest: bytes, claims: Claims) -> None:
        """Raises ApiError (429) where the API server isn't to be asked now."""
        if self._let_in.get(digest):
            return
        wait = self._strangers.take(None, per_second=STRANGERS_PER_SECOND, burst=STRANGERS_AT_ONCE)
        if wait and self._accounts.get(claims.identity):
            wait = self._renewals.take(claims.identity, per_second=ACCOUNT_PER_SECOND, burst=ACCOUNT_AT_ONCE)
        if wait:
            raise errors.too_many_requests(
                "Too many tokens come in that the gateway doesn't know yet. Try again in a moment.", math.ceil(wait)
            )

    def allows(self, owner: TokenOwner, verb: Verb, namespace: str) -> bool:
        """Whether somebody may do this in a namespace.

        Raises:
            ApiError: 429, they ask for too many.
            KubernetesError: the API server doesn't answer.
        """
        question = (owner, verb, namespace)
        if self._rights.get(question):
            return True
        if self._refusals.get(question):
            return False
        wait = self._askers.take(owner, per_second=RIGHTS_PER_SECOND, burst=RIGHTS_AT_ONCE)
        if wait:
            raise errors.too_many_requests(
                "Your requests name too many namespaces that the gateway doesn't know your rights in. Try again in a"
                " moment.",
                math.ceil(wait),
            )
        allowed = self._reviews.allows(owner, verb, namespace)
        kept, seconds = (self._rights, RIGHT_SECONDS) if allowed else (self._refusals, REFUSAL_SECONDS)
        kept.put(question, True, seconds)
        return allowed


class _Questions:
    """One at a time about the same token; different ones don't wait for one another."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[bytes, tuple[Lock, int]] = {}

    @contextmanager
    def alone(self, about: bytes) -> Iterator[None]:
        with self._lock:
            turn, askers = self._open.get(about) or (Lock(), 0)
            self._open[about] = (turn, askers + 1)
        try:
            with turn:
                yield
        finally:
            with self._lock:
                turn, askers = self._open.pop(about)
                if askers > 1:
                    self._open[about] = (turn, askers - 1)


def own_namespace(owner: TokenOwner) -> str | None:
    """The namespace of a service account; None for people."""
    form = _SERVICE_ACCOUNT.fullmatch(owner.username)
    return form[1] if form else None
