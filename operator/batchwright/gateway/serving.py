"""The gateway's process: logs, the socket, the HTTP server, and its end."""

import asyncio
import contextlib
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import Final

import anyio.to_thread
import uvicorn
from fastapi import FastAPI

from batchwright.allocator import return_large_blocks
from batchwright.gateway.connecting import check_storage, connected, gateway_namespace
from batchwright.gateway.context import Gateway
from batchwright.gateway.files.upload import STOP_SECONDS
from batchwright.gateway.http.app import create_app
from batchwright.gateway.http.protocol import BoundedHttp
from batchwright.gateway.identity import audit
from batchwright.gateway.keeper.loop import KeeperLoop
from batchwright.gateway.keeper.opening import open_keeper
from batchwright.gateway.opening import THREADS
from batchwright.gateway.settings import InvalidSettings, load_settings
from batchwright.kube import errors
from batchwright.listening import listen
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)

PORT: Final = 8080
PORT_VARIABLE: Final = "BATCHWRIGHT_GATEWAY_PORT"
KEEP_ALIVE_SECONDS: Final = 620
"""How long an idle connection stays: longer than load balancers keep theirs (nginx and AWS 60 s, Google Cloud 600 s).
Were it shorter, one of them might send a request on a connection that is just being closed, and answer 502."""
CONNECTIONS: Final = 2000
"""At once; more are answered 503. An idle one takes some 15 KB."""
SHUTDOWN_SECONDS: Final = 25
"""For requests that are under way; then they are cancelled."""
ABORT_SECONDS: Final = STOP_SECONDS
"""For uploads among them to be aborted. All that the end takes is less than the pod's grace period."""
KEEPER_SECONDS: Final = 5
"""For the keeper to finish a step and give its Lease back."""
_BAD_SETTINGS: Final = 2

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def serve(environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM. Exit code 2 for settings that can't be used, 1 where it can't start."""
    return_large_blocks()
    configure_logging()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)  # uvicorn takes over while it serves, and raises the signal again at its end
    try:
        settings = load_settings(environment)
        gateway = connected(settings, environment)
        keeper = open_keeper(gateway, gateway_namespace(environment), environment)
        listening = listen(_port(environment))
    except InvalidSettings as error:
        sys.stderr.write(f"batchwright-gateway: {error}\n")
        return _BAD_SETTINGS
    except (errors.KubernetesError, StorageError, OSError) as error:
        logger.critical("the gateway can't start: %s", error)
        return 1
    with listening:
        app = create_app(gateway, audit.log_audit, lifespan(gateway, keeper))
        logger.info("serving on port %d", listening.getsockname()[1])
        uvicorn.Server(server_config(app)).run(sockets=[listening])
    return 0


def server_config(app: FastAPI) -> uvicorn.Config:
    """How the application is served."""
    return uvicorn.Config(
        app,
        http=BoundedHttp,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        # The address of a client is used for nothing, so no proxy needs to be trusted.
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def lifespan(gateway: Gateway, keeper: KeeperLoop) -> Lifespan:
    """What goes on beside the requests for as long as the application is served."""

    @contextlib.asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        # Not waited for at the end, however long the storage takes to answer.
        threading.Thread(target=check_storage, args=(gateway,), name="check-storage", daemon=True).start()
        keeper.start()
        yield
        await asyncio.to_thread(keeper.stop, KEEPER_SECONDS)

    return running


def configure_logging() -> None:
    """Everything to standard output; the audit log's lines as they are, JSON."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)-7s %(name)s %(message)s", force=True
    )
    # Below that the client of the Kubernetes API logs the answers' bodies, and a token is part of one.
    for noisy in ("kubernetes", "urllib3", "botocore", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    lines = logging.StreamHandler(sys.stdout)
    lines.setFormatter(logging.Formatter("%(message)s"))
    audit.logger.handlers = [lines]
    audit.logger.propagate = False


def _port(environment: Mapping[str, str]) -> int:
    text = environment.get(PORT_VARIABLE) or str(PORT)
    if not text.isdecimal() or int(text) >= 2**16:
        raise InvalidSettings(f"{PORT_VARIABLE} must be a port, 0 to 65535, not {text!r}")
    return int(text)


def _leave(_: int, __: FrameType | None) -> None:
    sys.exit(0)
