"""The socket of a server that everybody in the cluster's network may reach, whether it has IPv4, IPv6 or both."""

import errno
import socket

_UNAVAILABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""What a kernel says whose IPv6 is switched off."""


def listen(port: int) -> socket.socket:
    """A listening socket on all addresses; port 0 takes any that is free.

    Raises:
        OSError: the port is taken.
    """
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _UNAVAILABLE:
                raise
    return socket.create_server(("", port))
