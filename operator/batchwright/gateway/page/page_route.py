"""What every answer of the page has: headers that keep a browser from doing more than the page needs, errors as pages,
and no change that another site's page asked for.
"""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.routing import APIRoute

from batchwright.gateway.errors import ApiError, forbidden
from batchwright.gateway.http.error_handlers import as_api_error, request_id
from batchwright.gateway.page import origin
from batchwright.gateway.page.problems import problem_of
from batchwright.gateway.page.templating import Templates

FRAGMENT: Final = "x-fragment"
"""Header of the script's requests for the live part of a page."""
SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: then a form's Origin would be null, by which its own page could not be told from another's.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
PRIVATE: Final = "no-store"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class SignInNeeded(Exception):  # noqa: N818
    """Nobody is signed in, or with a key that is no longer known."""


def page_route(templates: Templates) -> type[APIRoute]:
    """The class of the page's routes."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handler = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    _refuse_others(request)
                    answer = await handler(request)
                except SignInNeeded:
                    answer = _sign_in(request, templates)
                except Exception as error:
                    answer = problem_answer(request, templates, as_api_error(request, error))
                return _with_headers(answer)

            return guarded

    return PageRoute


def _refuse_others(request: Request) -> None:
    """Raises ApiError (403) for a change that comes from elsewhere."""
    if request.method not in ("GET", "HEAD") and not origin.is_own(request.headers):
        raise forbidden("This form was not sent from this page. Open the page itself, and try again.")


def problem_answer(request: Request, templates: Templates, error: ApiError) -> Response:
    """An error, as a page for people, or as the API has it for the page's own scripts."""
    if wants_json(request):
        return JSONResponse(error.body(), error.status, error.headers)
    title = f"{error.status} {HTTPStatus(error.status).phrase}"
    problem = problem_of(error)
    text = templates.render(
        "problem.html",
        title=problem.title,
        status=title,
        problem=problem,
        principal=getattr(request.state, "principal", None),
        request_id=request_id(request) if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "",
    )
    return HTMLResponse(text, error.status, error.headers)


def wants_json(request: Request) -> bool:
    """Whether a script asks."""
    return request.headers.get("accept", "").startswith("application/json")


def _sign_in(request: Request, templates: Templates) -> Response:
    """To the form, and from there back to what was asked for."""
    if FRAGMENT in request.headers or wants_json(request):
        return JSONResponse(
            ApiError(HTTPStatus.UNAUTHORIZED, "Sign in again.", code="invalid_api_key").body(), HTTPStatus.UNAUTHORIZED
        )
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        # A link from elsewhere carries no SameSite=Strict cookie, though somebody may be signed in: ask once more,
        # from here.
        return HTMLResponse('<!doctype html><title>Batchwright</title><meta http-equiv="refresh" content="0">')
    target = templates.link("/sign-in")
    if request.method == "GET":
        path = templates.from_root(request.url.path) + (f"?{request.url.query}" if request.url.query else "")
        target += f"?next={quote(path, safe='')}"
    return RedirectResponse(target, HTTPStatus.SEE_OTHER)


def _with_headers(answer: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        answer.headers[name] = value
    answer.headers.setdefault("cache-control", PRIVATE)
    return answer
