"""One connection to an API server: credentials, TLS, time limits, errors.

The `kubernetes` package finds the credentials (service account, kubeconfig, exec plugins), refreshes tokens and keeps
the connections. Its generated models are not used: decoding a list of pods into them costs more than everything else
that the operator does. Calls block; an asyncio program makes them in threads.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlencode

import urllib3
from kubernetes import client, config

from batchwright.kube import errors

RawObject = dict[str, Any]
"""An object as the API server sends it."""
_RawObjects = list[RawObject]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PAGE_SIZE = 500
_RETRIES = urllib3.Retry(total=2, connect=2, read=0, redirect=0, status=0, other=0, respect_retry_after_header=False)
"""A connection that can't be made is tried again at once. What fails after that is for the caller to try again: a
server that hangs would hold a thread for as long as all the tries."""
_MOST_LISTINGS = 3


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds that a call may take to connect, and then to be answered."""

    connect: float = 5.0
    read: float = 30.0


def path_of(group_version: str, resource: str, namespace: str | None = None, *names: str) -> str:
    """The path of a resource: `path_of("batch/v1", "jobs", "demo", "plan")`."""
    root = f"/api/{group_version}" if "/" not in group_version else f"/apis/{group_version}"
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return "/".join([root + scope, resource, *(quote(name, safe="") for name in names)])


class Connection:
    """Calls to one API server. Safe to use from several threads."""

    def __init__(
        self,
        api_client: client.ApiClient,
        *,
        time_limits: TimeLimits = TimeLimits(),
        before_write: Callable[[], None] | None = None,
    ) -> None:
        self._api_client = api_client
        self._time_limits = time_limits
        self._before_write = before_write
        # Refreshing a token rewrites the shared configuration, so headers are built by one thread at a time.
        self._headers_lock = threading.Lock()

    @classmethod
    def open(
        cls,
        *,
        context: str | None = None,
        connections: int = 16,
        time_limits: TimeLimits = TimeLimits(),
        retries: bool = True,
        before_write: Callable[[], None] | None = None,
    ) -> Self:
        """Connect as a pod does (its service account), else as kubectl does (KUBECONFIG, ~/.kube/config).

        `before_write` is called right before each write, and what it raises keeps the write from being sent. Without
        `retries` a connection that can't be made is an error at once, and the time limits are those of the whole call.

        Raises:
            errors.Unavailable: there are no credentials to connect with.
        """
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = connections
        configuration.retries = _RETRIES if retries else False
        try:
            if context is None:
                try:
                    config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                except config.ConfigException:
                    config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    context=context, client_configuration=configuration
                )
        except config.ConfigException as error:
            raise errors.Unavailable(
                f"no way to a Kubernetes cluster: {error}. Run in a pod, or set KUBECONFIG"
            ) from error
        return cls(client.ApiClient(configuration), time_limits=time_limits, before_write=before_write)

    def get(self, path: str, query: dict[str, str] | None = None) -> RawObject:
        """One object."""
        return self._call("GET", path, query)

    def list(self, path: str, query: dict[str, str] | None = None) -> list[RawObject]:
        """All objects of a list, page after page; from the beginning again where the server has forgotten the list."""
        for _ in range(_MOST_LISTINGS - 1):
            try:
                return self._pages(path, query or {})
            except errors.Unavailable as error:
                if error.status != HTTPStatus.GONE:
                    raise
        return self._pages(path, query or {})

    def _pages(self, path: str, query: dict[str, str]) -> _RawObjects:
        items: _RawObjects = []
        token: str | None = None
        while True:
            page = self._call("GET", path, {**query, "limit": str(PAGE_SIZE), **({"continue": token} if token else {})})
            items += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items

    def create(self, path: str, body: RawObject) -> RawObject:
        """Create an object and return it as stored."""
        return self._call("POST", path, None, body)

    def patch(self, path: str, body: RawObject, content_type: str = MERGE_PATCH) -> RawObject:
        """Change an object and return it as stored. With `metadata.uid` in the body, only that very object."""
        return self._call("PATCH", path, None, body, content_type)

    def delete(self, path: str, *, uid: str | None = None) -> None:
        """Delete an object, its children in the background. With a UID only that very object is deleted."""
        body: RawObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        self._call("DELETE", path, None, body)

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: RawObject | None = None,
        content_type: str = "application/json",
    ) -> RawObject:
        url = path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            with self._headers_lock:
                method, url, headers, data, form = self._api_client.param_serialize(
                    method, url, header_params=headers, body=body, auth_settings=["BearerToken"]
                )
            if method != "GET" and self._before_write is not None:
                self._before_write()
            limits = self._time_limits
            answer = self._api_client.call_api(
                method, url, headers, data, form, _request_timeout=(limits.connect, limits.read)
            )
            content = answer.read()  # type: ignore[no-untyped-call]
        except client.ApiException as error:
            if error.status:
                retry_after = (error.headers or {}).get("Retry-After")
                raise errors.error_of(error.status, error.body or "", retry_after) from error
            raise errors.Unavailable(f"no answer from the API server: {error.reason}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise errors.Unavailable(f"no answer from the API server: {error}") from error
        if not 200 <= answer.status < 300:  # noqa: PLR2004
            raise errors.error_of(answer.status, content, answer.headers.get("Retry-After"))
        return _object(content)


def _object(content: bytes) -> RawObject:
    """The object in an answer; something else comes from a proxy in between."""
    try:
        result = json.loads(content)
    except ValueError as error:
        raise errors.Unavailable("the API server's answer is no JSON: is there a proxy in between?") from error
    except RecursionError as error:
        message = "the API server's answer is nested too deeply: look for an object of thousands of fields in fields"
        raise errors.Unavailable(message) from error
    if not isinstance(result, dict):
        raise errors.Unavailable("the API server's answer is no object: is there a proxy in between?")
    return result
