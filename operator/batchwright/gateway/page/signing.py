"""Signing in and out, and the namespace that an administrator looks at."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from batchwright.gateway.errors import ApiError, invalid_api_key
from batchwright.gateway.http.dependencies import admit
from batchwright.gateway.http.error_handlers import as_api_error
from batchwright.gateway.page import session
from batchwright.gateway.page.context import Page
from batchwright.gateway.page.forms import small_form
from batchwright.gateway.page.page_route import SignInNeeded
from batchwright.gateway.page.problems import Problem, problem_of
from batchwright.gateway.page.templating import UI
from batchwright.gateway.principal import Principal


def add_routes(page: Page, routes: APIRouter) -> None:
    """Declare them."""
    settings = page.gateway.settings
    may_list = Depends(page.asking("list"))

    def form(target: str, namespace: str, problem: Problem | None, status: int = HTTPStatus.OK) -> Response:
        text = page.templates.render(
            "sign_in.html", title="Sign in", principal=None, next=target, namespace=namespace, problem=problem
        )
        return HTMLResponse(text, status)

    def target_of(path: str) -> str:
        return path if page.templates.is_ours(path) else page.templates.link("/")

    @routes.get(f"{UI}/sign-in")
    def sign_in(request: Request, target: Annotated[str, Query(alias="next")] = "") -> Response:
        over = target and session.session_of(request) is not None
        problem = Problem("Sign in again.", "Your key is no longer known: it was revoked, or has expired.")
        return form(target_of(target), "", problem if over else None)

    @routes.post(f"{UI}/sign-in")
    async def enter(request: Request) -> Response:
        fields = await small_form(request)
        target = target_of(fields.get("next", ""))
        try:
            entered = session.entered(fields.get("key", ""), fields.get("namespace", ""))
            await run_in_threadpool(_check, page, request, entered)
        except (ApiError, SignInNeeded) as error:
            shown = invalid_api_key() if isinstance(error, SignInNeeded) else as_api_error(request, error)
            return form(target, fields.get("namespace", ""), problem_of(shown), shown.status)
        answer = RedirectResponse(target, HTTPStatus.SEE_OTHER)
        session.start(request, answer, settings, entered)
        return answer

    @routes.post(f"{UI}/sign-out")
    def leave() -> Response:
        answer = RedirectResponse(page.templates.link("/sign-in"), HTTPStatus.SEE_OTHER)
        session.end(answer, settings)
        return answer

    @routes.post(f"{UI}/namespace")
    async def choose(request: Request, principal: Annotated[Principal, may_list]) -> Response:
        fields = await small_form(request)
        answer = RedirectResponse(page.templates.link("/"), HTTPStatus.SEE_OTHER)
        if principal.admin:
            namespace = session.namespace_entered(fields.get("namespace", "").strip())
            session.choose(request, answer, settings, namespace)
        return answer


def _check(page: Page, request: Request, entered: session.Session) -> None:
    """See that a key is known, and may see batches. Raises SignInNeeded, ApiError."""
    admit(page.gateway, request, page.identify(entered), "list")
