"""What the API server refuses, as exceptions.

KubernetesError
├── NotFound          404
├── Conflict          409: changed or deleted and made anew since it was read
│   └── AlreadyExists 409 on a creation
├── BeingDeleted      the name is still taken by an object that is on its way out: wait
├── Refused           any other 4xx: permission, quota, admission, an invalid object
└── Unavailable       5xx, 429, 410, no connection, no answer that can be read: try again later
"""

import json
from http import HTTPStatus

_PASSING = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.GONE})


class KubernetesError(Exception):
    """A call that failed: `status` is the HTTP status (0 without an answer), `reason` the API's word for it.

    `retry_after`: seconds that the server asks to be left alone for; None where it doesn't say.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotFound(KubernetesError):  # noqa: N818
    """There is no such object."""


class Conflict(KubernetesError):  # noqa: N818
    """The object isn't the one that was read: it changed, or it was deleted and made anew."""


class AlreadyExists(Conflict):
    """The name is taken."""


class BeingDeleted(KubernetesError):  # noqa: N818
    """The name is taken by an object that is being deleted: wait, then create again."""


class Refused(KubernetesError):  # noqa: N818
    """The request is understood and not wanted: permission, quota, admission, validation."""


class Unavailable(KubernetesError):  # noqa: N818
    """No answer, or one that may be another a moment later."""


def is_verdict(error: KubernetesError, *, creating: bool) -> bool:
    """Whether an error says something about the object that was sent, for a person to read, and not only about the
    API server's state or our own rights to it.

    A 500 is what a webhook that can't be called comes to.
    """
    if isinstance(error, NotFound):
        return creating  # what it is created in is gone
    if isinstance(error, Refused):
        return error.status != HTTPStatus.UNAUTHORIZED
    return error.status == HTTPStatus.INTERNAL_SERVER_ERROR


def lacks_right(error: KubernetesError) -> bool:
    """Whether the caller may not do this at all, whatever the object: then the answer names the user. What admission
    says is a 403 too, and names the object alone.
    """
    return error.status == HTTPStatus.FORBIDDEN and ' is forbidden: User "' in error.message


def error_of(status: int, body: bytes | str, retry_after: str | None = None) -> KubernetesError:
    """The exception for an answer that is no success. `retry_after` is the header of that name."""
    reason, message = _read(body)
    message = message or f"HTTP {status}"
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(message, status=status, reason=reason)
    if status == HTTPStatus.CONFLICT:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        return kind(message, status=status, reason=reason)
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(message, status=status, reason=reason, retry_after=_seconds(retry_after))
    return Refused(message, status=status, reason=reason)


def _seconds(header: str | None) -> float | None:
    """The API server gives whole seconds; a proxy before it may give a date, which is ignored."""
    return float(header) if header is not None and header.strip().isdecimal() else None


def _read(body: bytes | str) -> tuple[str, str]:
    """Reason and message of a metav1.Status; the text itself where it is none (a proxy's answer)."""
    try:
        answer = json.loads(body)
    except ValueError:
        text = body.decode(errors="replace") if isinstance(body, bytes) else body
        return "", text[:500]
    if not isinstance(answer, dict):
        return "", str(answer)[:500]
    return str(answer.get("reason") or ""), str(answer.get("message") or "")
