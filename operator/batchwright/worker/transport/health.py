"""Asking a server whether it is alive."""

from typing import Final

from batchwright.worker.transport.protocol import Answer

HEALTH_PATH: Final = "/health"
_SERVER_ERRORS: Final = 500


def is_alive(answer: Answer) -> bool:
    """Whether an answer is a sign of life. That of a server without such a path, or that wants a key, is one."""
    return answer.status < _SERVER_ERRORS
