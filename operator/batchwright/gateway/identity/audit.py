"""The audit log: one JSON line for each request that changes something, or fails.

A line says who, what and when: no body, no key, no file's name, no path beyond the route. Reads that succeed aren't
logged.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

logger = logging.getLogger("batchwright.gateway.audit")

_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def log_audit(line: Mapping[str, Any]) -> None:
    """Log what `http.middleware` tells of a request, if it belongs here."""
    if line["method"] in _CHANGING or line["status"] >= HTTPStatus.BAD_REQUEST:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        logger.info("%s", json.dumps({"time": now, **line}))
