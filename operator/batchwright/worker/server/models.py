"""Whether the server lists the model, from what its addresses answer to GET /v1/models. Pure."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from batchwright.worker.served_models import read_models
from batchwright.worker.transport.errors import TransportError
from batchwright.worker.transport.health import is_alive
from batchwright.worker.transport.protocol import Answer

_HTTP_OK: Final = 200
_REFUSALS: Final = frozenset({401, 403})


class Listing(Enum):
    """What is known of the model."""

    LISTED = auto()
    UNLISTED = auto()
    """An address has a list without it."""
    NO_LIST = auto()
    """The server answers, but has no list."""
    REFUSED = auto()
    """It refuses the key."""
    UNREACHABLE = auto()
    """It doesn't answer, or says that it can't."""


def listing_of(results: Sequence[Answer | TransportError], model: str) -> tuple[Listing, str]:
    """What the answers of all addresses mean, and the words for it.

    One address without the model is enough: the requests that go to it would fail.
    """
    answers = [result for result in results if isinstance(result, Answer)]
    lists = [models for answer in answers if answer.status == _HTTP_OK and (models := read_models(answer)) is not None]
    for models in lists:
        if model not in models:
            named = ", ".join(sorted(models)) or "none"
            return Listing.UNLISTED, f"The model server no longer serves {model}. It serves: {named}."
    if lists:
        return Listing.LISTED, ""
    for answer in answers:
        if answer.status in _REFUSALS:
            return Listing.REFUSED, f"The server answered {answer.status}."
    if any(map(is_alive, answers)):
        return Listing.NO_LIST, ""
    return Listing.UNREACHABLE, ""
