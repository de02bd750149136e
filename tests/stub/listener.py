"""A listening socket that can be closed and opened again on the same port."""

import asyncio
import ssl
from collections.abc import Callable

BACKLOG = 4096


class Listener:
    """Accepts connections while it is open. Closing it leaves the accepted ones alone."""

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._factory = factory
        self._host = host
        self._tls = tls
        self._server: asyncio.Server | None = None
        self.port = port
        """0 until the first opening has found a free one."""

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def open(self) -> None:
        """Raises OSError where the port is taken."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                self._factory, self._host, self.port, ssl=self._tls, backlog=BACKLOG, reuse_address=True
            )
            self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
