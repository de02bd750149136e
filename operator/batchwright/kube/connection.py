"""One connection to an API server: credentials, TLS, time limits, errors.

The `kubernetes` package finds the credentials (service account, kubeconfig, exec plugins), refreshes tokens and keeps
the connections. Its generated models are not used: decoding a list of pods into them costs more than everything else
that the operator does. Calls block; an asyncio program makes them in threads.
"""

import json
import threading
from typing import Any, Self
from urllib.parse import quote, urlencode

import urllib3
from kubernetes import client, config

from batchwright.kube import errors

RawObject = dict[str, Any]
"""An object as the API server sends it."""

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PAGE_SIZE = 500
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0


def path_of(group_version: str, resource: str, namespace: str | None = None, *names: str) -> str:
    """The path of a resource: `path_of("batch/v1", "jobs", "demo", "plan")`."""
    root = f"/api/{group_version}" if "/" not in group_version else f"/apis/{group_version}"
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return "/".join([root + scope, resource, *(quote(name, safe="") for name in names)])


class Connection:
    """Calls to one API server. Safe to use from several threads."""

    def __init__(self, api_client: client.ApiClient) -> None:
        self._api_client = api_client
        # Refreshing a token rewrites the shared configuration, so headers are built by one thread at a time.
        self._headers_lock = threading.Lock()

    @classmethod
    def open(cls, *, context: str | None = None, connections: int = 16) -> Self:
        """Connect as a pod does (its service account), else as kubectl does (KUBECONFIG, ~/.kube/config).

        Raises:
            errors.Unavailable: there are no credentials to connect with.
        """
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = connections
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
        return cls(client.ApiClient(configuration))

    def get(self, path: str, query: dict[str, str] | None = None) -> RawObject:
        """One object."""
        return self._call("GET", path, query)

    def list(self, path: str, query: dict[str, str] | None = None) -> list[RawObject]:
        """All objects of a list, page after page."""
        items: list[RawObject] = []
        token: str | None = None
        while True:
            page = self._call(
                "GET", path, {**(query or {}), "limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
            )
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
            answer = self._api_client.call_api(
                method, url, headers, data, form, _request_timeout=(_CONNECT_SECONDS, _READ_SECONDS)
            )
            content = answer.read()  # type: ignore[no-untyped-call]
        except client.ApiException as error:
            if error.status:
                raise errors.error_of(error.status, error.body or "") from error
            raise errors.Unavailable(f"no answer from the API server: {error.reason}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise errors.Unavailable(f"no answer from the API server: {error}") from error
        if not 200 <= answer.status < 300:  # noqa: PLR2004
            raise errors.error_of(answer.status, content)
        result: RawObject = json.loads(content)
        return result
