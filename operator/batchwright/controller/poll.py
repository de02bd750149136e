"""Asking workers and merges for their progress, within a budget for the whole operator.

No answer only makes progress coarser.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeGuard

import httpx

from batchwright.api import names
from batchwright.api.reports import MergeProgress, Progress, Report, decode_report
from batchwright.controller import metrics
from batchwright.controller.core.observed import PodView, Stage
from batchwright.controller.memory import Memory
from batchwright.controller.settings import Settings

logger = logging.getLogger(__name__)
_SECONDS = 2.0
_MAX_BYTES = 64 * 1024


class Budget:
    """A number of polls a second, for all BatchJobs together: a bucket that holds one second's worth."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._left = float(per_second)
        self._filled_at: datetime | None = None

    def take(self, wanted: int, now: datetime) -> int:
        """How many of the wanted polls may be made now."""
        if self._filled_at is not None:
            seconds = max(0.0, (now - self._filled_at).total_seconds())
            self._left = min(float(self._per_second), self._left + seconds * self._per_second)
        self._filled_at = now
        granted = min(wanted, int(self._left))
        self._left -= granted
        return granted


class Poller:
    """Asks worker pods over HTTP."""

    def __init__(self, settings: Settings) -> None:
        self._interval = settings.poll_interval
        self._budget = Budget(settings.polls_per_second)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(_SECONDS),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=64),
            trust_env=False,  # pods are never behind a proxy
            follow_redirects=False,
            headers={"Accept-Encoding": "identity"},  # a small body can't unpack to a large one
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def poll(self, memory: Memory, now: datetime) -> None:
        """Ask the workers whose turn it is, those unasked for longest first."""
        if memory.reading is None:
            return
        due = due_pods(memory.reading.pods, memory.polled_at, now, self._interval)
        due = due[: self._budget.take(len(due), now)]
        for pod in due:
            memory.polled_at[pod.uid] = now
        reports = await asyncio.gather(*(self._ask(pod) for pod in due))
        memory.hear(tuple(report for report in reports if isinstance(report, Progress)), now)
        memory.merging = next((report for report in reports if isinstance(report, MergeProgress)), memory.merging)
        if any(pod.stage is Stage.RUN for pod in due):
            memory.take_sample(now)

    async def _ask(self, pod: PodView) -> Progress | MergeProgress | None:
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        metrics.POLLS.inc()
        try:
            async with asyncio.timeout(_SECONDS * 2):
                body = await self._body(f"http://{host}:{names.WORKER_PORT}/progress")
        except (httpx.HTTPError, TimeoutError, _NotAReport) as error:
            logger.debug("no progress from pod %s: %s", pod.name, error)
            metrics.POLL_ERRORS.inc()
            return None
        report = decode_report(body.decode(errors="replace"))
        if _is_of(report, pod):
            return report
        metrics.POLL_ERRORS.inc()
        return None

    async def _body(self, url: str) -> bytes:
        """What a pod answers, as it was sent: the image is the user's choice, so the body may be anything.

        Raises:
            httpx.HTTPError: no answer, or one that is not 2xx.
            _NotAReport: it is packed, or longer than any report.
        """
        body = bytearray()
        async with self._client.stream("GET", url) as answer:
            answer.raise_for_status()
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise _NotAReport("the body is packed")
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise _NotAReport(f"the body has more than {_MAX_BYTES} bytes")
        return bytes(body)


def _is_of(report: Report | None, pod: PodView) -> TypeGuard[Progress | MergeProgress]:
    """Whether a report can be that of the pod which was asked."""
    if pod.stage is Stage.MERGE:
        return isinstance(report, MergeProgress) and report.run == pod.run
    return isinstance(report, Progress) and report.run == pod.run and report.index == (pod.index or 0)


class _NotAReport(Exception):  # noqa: N818
    """A body that is not read."""


def due_pods(
    pods: Sequence[PodView], polled_at: dict[str, datetime], now: datetime, interval: timedelta
) -> list[PodView]:
    """Running workers and merges that were not asked within the interval, the longest unasked first."""
    # Timers fire a little early or late: a tenth of the interval makes no poll miss its turn.
    margin = interval / 10
    due = [
        pod
        for pod in pods
        if pod.stage in (Stage.RUN, Stage.MERGE)
        and pod.phase == "Running"
        and pod.started
        and pod.address
        and (pod.uid not in polled_at or now - polled_at[pod.uid] >= interval - margin)
    ]
    return sorted(due, key=lambda pod: (pod.uid in polled_at, polled_at.get(pod.uid, now), pod.index or 0))
