"""Who asks, by a cookie that holds the API key itself.

So there is no session to keep, nothing that another replica would miss, and revoking the key ends the session within
seconds. Scripts can't read the cookie (HttpOnly), other sites' requests don't carry it (SameSite=Strict), and it goes
when the browser is closed. What this can't do: a session can't be ended from elsewhere but by revoking the key, and
whoever reads the browser's profile reads the key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import Request, Response

from batchwright.gateway.errors import ApiError
from batchwright.gateway.settings import Settings

KEY_COOKIE: Final = "batchwright_key"
NAMESPACE_COOKIE: Final = "batchwright_namespace"
_KEY: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,3800}")
"""A token's characters (RFC 6750), as many as a cookie takes."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Session:
    """What a browser sent to say who asks."""

    key: str
    namespace: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The same as an API client says it."""
        project = {"openai-project": self.namespace} if self.namespace else {}
        return {"authorization": f"Bearer {self.key}", **project}


def session_of(request: Request) -> Session | None:
    """The session of a request; None where nobody is signed in."""
    key = request.cookies.get(KEY_COOKIE, "")
    namespace = request.cookies.get(NAMESPACE_COOKIE, "")
    if not _KEY.fullmatch(key):
        return None
    return Session(key, namespace if _NAMESPACE.fullmatch(namespace) else None)


def entered(key: str, namespace: str) -> Session:
    """A session from what somebody typed. Raises ApiError (400) for what can be no key or no namespace."""
    key = key.strip().removeprefix("Bearer ").strip()
    namespace = namespace.strip()
    if not key:
        raise ApiError(400, "Enter your API key.", param="key")
    if not _KEY.fullmatch(key):
        raise ApiError(400, "This is no API key: it has characters that no key has, or is too long.", param="key")
    return Session(key, namespace_entered(namespace))


def namespace_entered(namespace: str) -> str | None:
    """A namespace that somebody typed; None for none. Raises ApiError (400) for what can be none."""
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise ApiError(
            400,
            "A namespace is at most 63 lowercase letters, digits and hyphens, such as team-a.",
            param="namespace",
        )
    return namespace or None


def start(request: Request, response: Response, settings: Settings, session: Session) -> None:
    """Let the browser keep a session until it is closed."""
    _set(request, response, settings, KEY_COOKIE, session.key)
    choose(request, response, settings, session.namespace)


def choose(request: Request, response: Response, settings: Settings, namespace: str | None) -> None:
    """Let the browser keep a namespace, or none."""
    if namespace is None:
        response.delete_cookie(NAMESPACE_COOKIE, path=_path(settings))
    else:
        _set(request, response, settings, NAMESPACE_COOKIE, namespace)


def end(response: Response, settings: Settings) -> None:
    """Let the browser forget it."""
    for name in (KEY_COOKIE, NAMESPACE_COOKIE):
        response.delete_cookie(name, path=_path(settings))


def _set(request: Request, response: Response, settings: Settings, name: str, value: str) -> None:
    response.set_cookie(
        name, value, path=_path(settings), httponly=True, samesite="strict", secure=scheme_of(request) == "https"
    )


def scheme_of(request: Request) -> str:
    """http or https, as the browser sees it: an ingress that ends TLS says so."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return forwarded if forwarded in ("http", "https") else str(request.scope["scheme"])


def host_of(request: Request) -> str:
    """The host, and the port where it says one, that the browser asked for."""
    forwarded = request.headers.get("x-forwarded-host", "").partition(",")[0].strip()
    return forwarded or request.headers.get("host", "")


def _path(settings: Settings) -> str:
    return settings.root_path or "/"
