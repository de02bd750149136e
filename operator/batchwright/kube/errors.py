"""What the API server refuses, as exceptions.

KubernetesError
├── NotFound          404
├── Conflict          409: changed or deleted and made anew since it was read
│   └── AlreadyExists 409 on a creation
├── BeingDeleted      the name is still taken by an object that is on its way out: wait
├── Refused           any other 4xx: permission, quota, admission, an invalid object
└── Unavailable       5xx, 429, no connection: try again later
"""

import json
from http import HTTPStatus


class KubernetesError(Exception):
    """A call that failed: `status` is the HTTP status (0 without an answer), `reason` the API's word for it."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


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


def error_of(status: int, body: bytes | str) -> KubernetesError:
    """The exception for an answer that is no success."""
    reason, message = _read(body)
    message = message or f"HTTP {status}"
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(message, status=status, reason=reason)
    if status == HTTPStatus.CONFLICT:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        return kind(message, status=status, reason=reason)
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT) or status >= 500:  # noqa: PLR2004
        return Unavailable(message, status=status, reason=reason)
    return Refused(message, status=status, reason=reason)


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
