"""Whether a form was sent from this page: what another site's page sends must change nothing. Pure."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_SAME_ORIGIN: Final = "same-origin"


def is_own(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that the request comes from a page of this very origin.

    `Sec-Fetch-Site` says it outright, and no script can set it. Browsers send it over HTTPS and to loopback only, so
    elsewhere `Origin` must name the host that was asked: `Host`, or what an ingress says it was. A request without
    either comes from no browser that keeps cookies from other sites' requests, and is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == _SAME_ORIGIN
    host = urlsplit(headers.get("origin", "")).netloc.lower()
    asked = {headers.get(name, "").lower() for name in ("host", "x-forwarded-host")}
    return bool(host) and host in asked
