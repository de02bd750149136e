"""Which transport reaches a server."""

from batchwright.worker.transport.addresses import is_resolved_here
from batchwright.worker.transport.aiohttp_transport import AiohttpTransport, tls_context
from batchwright.worker.transport.protocol import Transport
from batchwright.worker.transport.settings import TransportSettings
from batchwright.worker.transport.spread import SpreadTransport


def open_transport(settings: TransportSettings) -> Transport:
    """Make the transport that the worker uses. Call it in the event loop that will run the requests.

    Raises:
        ConnectFailed: `ca_bundle` can't be read as certificates.
    """
    tls = tls_context(settings)
    return SpreadTransport(settings, tls=tls) if is_resolved_here(settings) else AiohttpTransport(settings, tls=tls)
