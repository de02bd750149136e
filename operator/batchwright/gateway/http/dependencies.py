"""What routes ask FastAPI for."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Header, Request

from batchwright.gateway import errors, ids
from batchwright.gateway.batches.idempotency import HEADER
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.protocol import OVERLOADED
from batchwright.gateway.principal import Principal, Verb

IdempotencyKey = Annotated[
    str | None, Header(alias=HEADER, description="The same key and request again give the same batch, for 24 hours.")
]
"""The parameter of a route that makes a batch."""


async def not_overloaded(request: Request) -> None:
    """Raises ApiError (503) above the bound on connections. Waits for no thread, since all may be at work."""
    if getattr(request.state, OVERLOADED, False):
        raise errors.unavailable("The gateway has more connections than it serves at once. Try again.")


def authenticated(gateway: Gateway, verb: Verb) -> Callable[[Request], Principal]:
    """A dependency that gives who asks, once they may do this and not too often."""

    def principal(request: Request) -> Principal:
        return admit(gateway, request, gateway.authenticator.authenticate(request.headers), verb)

    return principal


def admit(gateway: Gateway, request: Request, principal: Principal, verb: Verb) -> Principal:
    """Who asks, once they may do this and not too often; also where they were found out otherwise than by headers.

    Raises ApiError.
    """
    request.state.principal = principal
    # In this order: whoever names a namespace that isn't theirs must not use up its requests.
    gateway.authenticator.authorize(principal, verb)
    gateway.rate.check(principal)
    return principal


def note_batch(request: Request, batch_id: str) -> None:
    """Tell the audit log which batch a request is about; nothing that only claims to be an id."""
    request.state.object_id = batch_id if ids.is_batch_id(batch_id) else None


def namespace_of(principal: Principal) -> str:
    """The one namespace that is meant. Raises ApiError where an administrator named none."""
    if principal.namespace is None:
        raise ApiError(
            400,
            "An administrator's key belongs to no namespace: name one with the header `OpenAI-Project`.",
            code="missing_required_parameter",
            param="OpenAI-Project",
        )
    return principal.namespace
