"""The worker's way to the model server: one Protocol and the client behind it."""

from batchwright.worker.transport.errors import (
    AnswerTimeout,
    AnswerTooLarge,
    ConnectFailed,
    ConnectionLost,
    TransportError,
)
from batchwright.worker.transport.protocol import Answer, Transport

__all__ = [
    "Answer",
    "AnswerTimeout",
    "AnswerTooLarge",
    "ConnectFailed",
    "ConnectionLost",
    "Transport",
    "TransportError",
]
