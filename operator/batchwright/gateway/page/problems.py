"""Errors in the page's words: what happened, and what to do. Pure."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from batchwright.gateway.errors import ApiError

_TITLES: Final = {
    HTTPStatus.BAD_REQUEST: "This can't be done.",
    HTTPStatus.UNAUTHORIZED: "You are not signed in.",
    HTTPStatus.FORBIDDEN: "You may not do this.",
    HTTPStatus.NOT_FOUND: "There is nothing here.",
    HTTPStatus.CONFLICT: "This can't be done now.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The file is too large.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too much at once.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The gateway can't do this at the moment.",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error for a template."""

    title: str
    message: str


def problem_of(error: ApiError) -> Problem:
    """An error of the API for people."""
    if error.status == HTTPStatus.UNAUTHORIZED:
        return Problem("This key is not known.", "Check that it is whole, and that it was not revoked.")
    return Problem(_TITLES.get(HTTPStatus(error.status), "This did not work."), _readable(error.message))


def _readable(message: str) -> str:
    """Without what only programs can follow: people choose a namespace in a field, not by a header."""
    return message.replace("with the header `OpenAI-Project`", "in the field Namespace").replace(
        "in the header `OpenAI-Project`", "in the field Namespace"
    )
