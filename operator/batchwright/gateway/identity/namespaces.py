"""The namespace that a request is for."""

import re
from collections.abc import Mapping
from typing import Final

from batchwright.gateway import errors

HEADER: Final = "OpenAI-Project"
"""The official clients send it: `OpenAI(project=...)`, or OPENAI_PROJECT_ID."""
_NAMESPACE: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST: Final = 63


def is_namespace(text: str) -> bool:
    """Whether it can be a namespace's name: what isn't one becomes part of no key and of no path."""
    return len(text) <= _LONGEST and _NAMESPACE.fullmatch(text) is not None


def chosen_namespace(headers: Mapping[str, str]) -> str | None:
    """The namespace that a request names; None where it names none. Raises ApiError (400) where it can't be one."""
    value = headers.get(HEADER.lower(), "").strip()
    if not value:
        return None
    if not is_namespace(value):
        raise errors.invalid_value(
            HEADER, f"The header `{HEADER}` must be the name of a namespace of the cluster, or be left out."
        )
    return value
