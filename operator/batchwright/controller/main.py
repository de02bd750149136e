"""`batchwright-operator`: the operator's process. All settings are environment variables, see `settings`."""

import asyncio
import logging
import os
import sys

import kopf

from batchwright.controller import handlers
from batchwright.controller.settings import InvalidSettings, Settings


def main() -> int:
    """Run until SIGTERM. Exit code 2 for settings that can't be used."""
    try:
        settings = Settings.from_environment(os.environ)
    except InvalidSettings as error:
        sys.stderr.write(f"batchwright-operator: {error}\n")
        return 2
    _configure_logging(settings.log_level)
    registry = kopf.OperatorRegistry()
    handlers.register(registry, settings)
    asyncio.run(
        kopf.operator(
            registry=registry,
            standalone=True,
            clusterwide=True,
        )
    )
    return 0


def _configure_logging(level: str) -> None:
    logging.basicConfig(
        level=level, stream=sys.stdout, format="%(asctime)s %(levelname)-7s %(name)s %(message)s", force=True
    )
    if level != "DEBUG":
        for noisy in ("httpx", "httpcore", "urllib3", "kopf.objects", "kopf.activities.probe", "aiohttp.access"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
