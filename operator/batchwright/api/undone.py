"""Requests that a batch ended without: the codes that their error lines carry, and what the lines say.

The code and the text of `batch_expired` are OpenAI's; the others follow them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Undone(StrEnum):
    """Why a request has no outcome of its own. Its line stands in the errors file and in the retry file."""

    CANCELLED = "batch_cancelled"
    EXPIRED = "batch_expired"
    FAILED = "batch_failed"


UNDONE_MEANINGS: Final[Mapping[Undone, str]] = {
    Undone.CANCELLED: "The batch was cancelled before the request was finished.",
    Undone.EXPIRED: "The completion window ended before the request was finished.",
    Undone.FAILED: "The batch failed as a whole before the request was finished: too many requests failed, or the run"
    " could not go on.",
}

UNDONE_MESSAGES: Final[Mapping[Undone, str]] = {
    Undone.CANCELLED: "This request could not be executed before the batch was cancelled.",
    Undone.EXPIRED: "This request could not be executed before the completion window expired.",
    Undone.FAILED: "This request could not be executed before the batch failed.",
}
"""The `message` of an error line."""
