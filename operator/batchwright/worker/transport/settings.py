"""How to reach one server: a value that is checked when it is made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

# Three times the largest body of a request. All answers in flight have a bound of their own, in answer_budget.py.
DEFAULT_MAX_ANSWER_BYTES = 32 * 1024 * 1024

# uvicorn, and with it vLLM, closes a connection that was idle for 5 s. A client that lets go earlier
# doesn't send a request into a connection that is being closed.
DEFAULT_KEEPALIVE_SECONDS = 3.0

# A new connection costs a round trip or three; a replica that came later waits so long for its share.
DEFAULT_MAX_CONNECTION_AGE_SECONDS = 30.0

# Time for TCP and TLS to one address. It is apart from a request's timeout, which is made for
# generation and may be many minutes: a host that drops packets must show long before that.
DEFAULT_CONNECT_SECONDS = 10.0

# RFC 9110, sections 5.1 and 5.5.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
# RFC 3986: what stands in a URL as it is. Hosts may have underscores, which resolvers accept.
_VISIBLE = re.compile(r"[!-~]*")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})")
_HOST_LENGTH = 254

_POSITIVE = (
    *("max_connections", "max_answer_bytes"),
    *("keepalive_seconds", "connect_seconds", "max_connection_age_seconds"),
)


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """One server and the rules for talking to it.

    Raises:
        ValueError: a field can't be used; the message names the field and never shows a secret.
    """

    base_url: str
    """http or https, with a host; a path is put before the path of each request."""
    max_connections: int
    """Size of the pool. The caller keeps at most as many POSTs in flight: one that has to wait for a
    connection uses up its own timeout."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request. Not shown by repr, since users put credentials here."""
    ca_bundle: Path | None = None
    """PEM file with the authorities to trust in place of the system's; of no meaning for http."""
    trust_environment: bool = False
    """Whether HTTP_PROXY, HTTPS_PROXY, NO_PROXY and .netrc count."""
    max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES
    """Largest body of an answer, after decompression."""
    keepalive_seconds: float = DEFAULT_KEEPALIVE_SECONDS
    """How long an idle connection is kept. Must be shorter than the server's own expiry."""
    connect_seconds: float = DEFAULT_CONNECT_SECONDS
    """How long a connection may take to come up, TLS included."""
    max_connection_age_seconds: float = DEFAULT_MAX_CONNECTION_AGE_SECONDS
    """About how long a connection is used. It ends after the answer that comes then, never in the middle of one."""

    def __post_init__(self) -> None:
        split_base_url(self.base_url)
        for name, value in self.headers.items():
            if not _TOKEN.fullmatch(name):
                raise ValueError(f"headers: {name!r} is not the name of a header")
            if not _LINE.fullmatch(value):
                raise ValueError(f"headers: the value of {name} holds a line break or a control character")
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def origin(self) -> str:
        """Host and port, for messages: `vllm:8000`."""
        parts = split_base_url(self.base_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = parts.hostname or ""
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def url(self, path: str) -> str:
        """Address of `path`, which the server knows with a leading slash: `/v1/models`.

        A base URL that ends in `/v1`, as OpenAI's clients want it, would double that part, since lines
        and routes carry it already: it counts once.

        Raises:
            ValueError: `path` has no leading slash, or characters that a URL must encode.
        """
        if not path.startswith("/") or not _VISIBLE.fullmatch(path):
            raise ValueError(f"a path starts with a slash and is encoded, got {path!r}")
        base = self.base_url.rstrip("/")
        if path.startswith("/v1/"):
            base = base.removesuffix("/v1")
        return base + path


def split_base_url(base_url: str) -> SplitResult:
    """Split `base_url` and check it.

    Raises:
        ValueError: it's not the address of an HTTP server, or holds credentials, a query or a fragment.
    """
    if not _VISIBLE.fullmatch(base_url):
        raise ValueError("base_url holds spaces or characters that a URL must encode")
    try:
        parts = urlsplit(base_url)
        legal = parts.port != 0
    except ValueError:
        legal = False
    if not legal:
        raise ValueError("base_url has a bad host or port")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url must be http:// or https:// with a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url must not hold credentials; send them in a header")
    if ":" not in parts.hostname and not _is_host_name(parts.hostname):
        raise ValueError("base_url has a bad host or port")
    if parts.query or parts.fragment:
        raise ValueError("base_url must not have a query or a fragment")
    return parts


def _is_host_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return len(host) <= _HOST_LENGTH and all(_LABEL.fullmatch(label) for label in labels)
