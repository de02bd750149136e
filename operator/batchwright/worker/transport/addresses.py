"""The addresses that the host of a server has at the moment."""

import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.request import getproxies, proxy_bypass

from aiohttp.abc import AbstractResolver, ResolveResult

from batchwright.worker.transport.endpoints import Address
from batchwright.worker.transport.settings import TransportSettings, split_base_url

_ABSENT: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Resolver(Protocol):
    """What is needed of aiohttp's AbstractResolver to find addresses."""

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = ...) -> Sequence[ResolveResult]:
        """Raises OSError where nothing was found, or nothing could be asked."""
        ...


class PinnedResolver(AbstractResolver):
    """Gives a client one replica's addresses for whatever name it asks for.

    So the name stays what it is in the Host header and to TLS, and the connection goes to that replica.
    """

    def __init__(self, address: Address) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=one,
                port=port,
                family=_family(one),
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for one in self._address
        ]

    async def close(self) -> None:
        pass


def is_resolved_here(settings: TransportSettings) -> bool:
    """Whether the server has a name, and it's this process that finds its addresses: no proxy does."""
    parts = split_base_url(settings.base_url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return not (settings.trust_environment and parts.scheme in getproxies() and not proxy_bypass(host))
    return False


def replica_addresses(found: Iterable[str], *, second_family: bool = False) -> tuple[Address, ...]:
    """What the addresses of a name say about the replicas behind it.

    One address of each family is one replica that is reached over both: `localhost`, or the Service of a
    cluster with two IP families. More of them are a replica each, and of two families one is enough, else each
    replica would count twice: the one that the system prefers (RFC 6724), or the other with `second_family`.
    """
    unique = list(dict.fromkeys(found))
    if not unique:
        return ()
    preferred = [one for one in unique if _family(one) == _family(unique[0])]
    others = [one for one in unique if one not in preferred]
    if len(preferred) == 1 and len(others) <= 1:
        return (tuple(unique),)
    return tuple((one,) for one in (others if second_family and others else preferred))


def says_that_there_are_none(error: OSError) -> bool:
    """Whether a failed lookup is an answer: the name has no address. Else nobody could be asked."""
    return isinstance(error, socket.gaierror) and error.errno in _ABSENT


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
