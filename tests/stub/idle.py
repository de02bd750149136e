"""Closing connections that have been idle, as servers and proxies with a keep-alive timeout do."""

import asyncio


class IdleCloser:
    """Closes a connection so many seconds after its last answer."""

    def __init__(self) -> None:
        self._timers: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def busy(self, transport: asyncio.BaseTransport) -> None:
        if self._timers and (timer := self._timers.pop(transport, None)):
            timer.cancel()

    def idle(self, transport: asyncio.BaseTransport, seconds: float) -> None:
        self.busy(transport)
        self._timers[transport] = asyncio.get_running_loop().call_later(seconds, self._close, transport)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _close(self, transport: asyncio.BaseTransport) -> None:
        del self._timers[transport]
        transport.close()
