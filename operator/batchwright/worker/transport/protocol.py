"""What the worker asks of an HTTP client, and no more.

The worker sends bodies as they stand in the input and keeps answers as they
came, so a transport deals in bytes.  It makes one attempt for each call:
retries, pacing and credentials are the caller's affair.

The deadline is a parameter, and not `asyncio.timeout` at the caller, since the
client can make it stand still while an answer waits for memory to be read into.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from batchwright.worker.transport.errors import TransportError

Body = bytes | memoryview
"""What is sent. A view of the input's line saves a copy, which counts where bodies have megabytes."""


class Answer(Struct, frozen=True):
    """One whole answer of the server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """To be looked up by names in lower case; of a name that was sent twice, the first value."""
    body: bytes
    """The body after decompression, otherwise byte for byte as it was sent."""


class Transport(Protocol):
    """Sends requests to one server over pools of kept connections.

    A server may have several addresses, one for each of its replicas.
    """

    async def post(
        self,
        path: str,
        body: Body,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109
        affinity: int | None = None,
    ) -> Answer:
        """Send `body` to `path`, which is taken relative to the base URL, and wait for the whole answer.

        `headers` come on top of the transport's own and win over them.
        Redirects are not followed: a 3xx is an answer like any other.
        `timeout` is in seconds, from the call to the last byte of the answer.
        Requests of one `affinity` go to the same address as long as the load stays even. It's any number
        that stands for what they have in common, such as the hash of the beginning of their prompts.

        Raises:
            ConnectFailed: no connection could be made.
            ConnectionLost: the connection ended before the answer was whole.
            AnswerTimeout: `timeout` passed.
            AnswerTooLarge: the answer's body is over the transport's limit.
            ValueError: a header holds a line break, or `path` has no leading slash.
        """
        ...

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        """Ask for `path` over a new connection, so that the answer tells whether the server is alive.

        It neither waits for the pool nor counts against it. Else the rules and the errors of `post` hold.
        """
        ...

    async def get_each(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
    ) -> Sequence[Answer | TransportError]:
        """Ask every address that gets requests for `path`, side by side and over new connections.

        There's at least one result. It raises no error of a request; these stand among the results.
        """
        ...

    async def probe(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        """Ask every address for `path`, over new connections, whether it is alive, and give the best answer.

        An address is alive that answers with a status below 500. One that is not, while another one is, gets
        no requests until it answers again. What is in flight to it ends with ConnectionLost once it's sure that
        nothing will come: it refuses connections, or has let several probes time out, and has been silent.
        Where none is alive, nothing changes: that the whole server is away is the caller's affair.

        Raises:
            TransportError: no address answered; one of their errors.
        """
        ...

    async def close(self) -> None:
        """Close all connections; what is in flight is lost. To call it twice does no harm.

        A request after it raises ConnectFailed.
        """
        ...
