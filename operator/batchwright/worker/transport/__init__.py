"""The worker's way to the model server: one Protocol and the client behind it."""

from batchwright.worker.transport.errors import (
    AnswerTimeout,
    AnswerTooLarge,
    ConnectFailed,
    ConnectionLost,
    TransportError,
)
from batchwright.worker.transport.opening import open_transport
from batchwright.worker.transport.protocol import Answer, Transport
from batchwright.worker.transport.settings import TransportSettings

__all__ = [
    "Answer",
    "AnswerTimeout",
    "AnswerTooLarge",
    "ConnectFailed",
    "ConnectionLost",
    "Transport",
    "TransportError",
    "TransportSettings",
    "open_transport",
]
