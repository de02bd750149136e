"""The prefix under which an ingress serves the gateway, told to the framework in each request's scope.

The framework's own parameter for it is deprecated, and servers that know one put it before every path. Here a path may
come with the prefix or without it, by whether the ingress takes it away.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


class RootPath:
    """Routes find a path behind the prefix, and links begin with it."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            scope["root_path"] = self._root_path
        await self._app(scope, receive, send)
