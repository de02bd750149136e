"""Around every request: its id, its metrics, its line in the audit log. Plain ASGI, so that bodies stream through."""

import re
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID: Final = "x-request-id"
_USABLE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

REQUESTS: Final = Counter(
    "batchwright_gateway_requests_total", "HTTP requests by route, method and status.", ["method", "route", "status"]
)
SECONDS: Final = Histogram(
    "batchwright_gateway_request_seconds", "Time from a request's head to its answer's end.", ["method", "route"]
)

Audit = Callable[[dict[str, Any]], None]
"""Takes what there is to say of a request: method, route, status, seconds, request_id, user, namespace, id."""


class RequestMiddleware:
    """Gives each request an id (the client's own where it is plain), counts it, and tells the audit log."""

    def __init__(self, app: ASGIApp, audit: Audit) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = sent if _USABLE_ID.fullmatch(sent) else f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = request_id
        began = time.monotonic()
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._tell(scope, status, time.monotonic() - began)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        method = scope["method"] if route != "unknown" else "unknown"
        REQUESTS.labels(method, route, str(status)).inc()
        SECONDS.labels(method, route).observe(seconds)
        principal = scope["state"].get("principal")
        self._audit(
            {
                "method": scope["method"],
                "route": route,
                "status": status,
                "seconds": round(seconds, 3),
                "request_id": scope["state"]["request_id"],
                "user": principal.user if principal else None,
                "namespace": principal.namespace if principal else None,
                "id": scope["state"].get("object_id"),
            }
        )
