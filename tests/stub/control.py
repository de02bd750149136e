"""The endpoints below /stub: switches, arrivals, stats, reset, abort."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from stub import errors, wire
from stub.errors import ApiError, SwitchError
from stub.settings import Settings
from stub.state import State

LAST = 1000
"""How many of the latest arrivals /stub/arrivals lists, unless ?last= says otherwise."""


class Control:
    """Carries out what is asked of the server from outside. `apply` puts settings in force."""

    def __init__(
        self,
        state: State,
        *,
        apply: Callable[[Settings], Awaitable[None]],
        open_connections: Callable[[], int],
    ) -> None:
        self._state = state
        self._apply = apply
        self._open_connections = open_connections
        self._routes: dict[tuple[str, str], Callable[[web.BaseRequest], Awaitable[Any]]] = {
            ("GET", "/stub/switches"): self._show,
            ("POST", "/stub/switches"): self._change,
            ("DELETE", "/stub/switches"): self._restore,
            ("GET", "/stub/arrivals"): self._arrivals,
            ("GET", "/stub/stats"): self._stats,
            ("POST", "/stub/reset"): self._reset,
            ("POST", "/stub/abort"): self._abort,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            handler = self._routes.get((request.method, request.path))
            if handler is None:
                known = [method for method, path in self._routes if path == request.path]
                raise errors.method_not_allowed(*known) if known else errors.not_found()
            content = await handler(request)
        except ApiError as error:
            return wire.respond(wire.encode_error(error.status, error.body), {})
        return web.Response(body=msgspec.json.encode(content), content_type=wire.JSON_TYPE)

    async def _show(self, _: web.BaseRequest) -> dict[str, Any]:
        return self._state.settings.shown()

    async def _change(self, request: web.BaseRequest) -> dict[str, Any]:
        """Change the settings named in the body, a JSON object; the others stay."""
        try:
            changes = msgspec.json.decode(await request.read(), type=dict[str, Any])
            settings = self._state.settings.merged(changes)
        except (msgspec.DecodeError, SwitchError) as error:
            raise errors.bad_request(str(error)) from None
        await self._apply(settings)
        return settings.shown()

    async def _restore(self, _: web.BaseRequest) -> dict[str, Any]:
        await self._apply(self._state.start)
        return self._state.settings.shown()

    async def _arrivals(self, request: web.BaseRequest) -> dict[str, Any]:
        last = request.query.get("last", str(LAST))
        if not last.isdecimal():
            raise errors.bad_request(f"last={last} is not a number", param="last")
        return self._state.log.snapshot(last=int(last))

    async def _stats(self, _: web.BaseRequest) -> dict[str, Any]:
        return self._state.stats.snapshot(self._state.capacity, self._open_connections())

    async def _reset(self, _: web.BaseRequest) -> dict[str, Any]:
        """Go back to the start: settings, counters, arrivals; what hangs is let go."""
        await self._apply(self._state.start)
        self._state.flight.release()
        self._state.clear()
        return self._state.settings.shown()

    async def _abort(self, _: web.BaseRequest) -> dict[str, Any]:
        """Answer all that wait with finish_reason abort, as vLLM does when it is shut down at once."""
        return {"aborted": self._state.flight.abort()}
