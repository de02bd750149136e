"""What can go wrong between a request and its whole answer.

An answer with an error status (4xx, 5xx) is an `Answer`, not an error: these
exceptions mean that no whole answer came.  Each message is short and safe for
a log: it never holds the request's body, the answer's body or a header.

    TransportError
    ├── ConnectFailed     no connection: refused, no such host, TLS not trusted
    ├── ConnectionLost    the connection ended before the answer was whole
    ├── AnswerTimeout     the deadline of the request passed
    └── AnswerTooLarge    the answer's body is over the limit
"""

# ruff: noqa: N818 - the names say what happened, as the standard library's do (KeyboardInterrupt)


class TransportError(Exception):
    """No whole answer came to a request."""


class ConnectFailed(TransportError):
    """No connection to the server could be made, so it never saw the request."""


class ConnectionLost(TransportError):
    """The connection ended, or stopped making sense, before the answer was whole.

    The server may or may not have worked on the request.
    """


class AnswerTimeout(TransportError):
    """The request's deadline passed before the answer was whole."""


class AnswerTooLarge(TransportError):
    """The answer's body, after decompression, is larger than the transport accepts."""
