"""What SIGTERM does to a worker: nothing new is sent, what is in flight is waited for, and what is finished is kept."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from batchwright.api.reports import Progress
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.runner import Runner
from batchwright.worker.run.stage_run import Started

logger = logging.getLogger(__name__)


class Drain:
    """Stops a worker that runs, or that is about to start."""

    def __init__(self, abandon_after: float) -> None:
        """`abandon_after`: seconds from the request until what is in flight is given up."""
        self._abandon_after = abandon_after
        self._starting: asyncio.Task[Progress] | None = None
        self._runner: Runner | None = None
        self._progress: RunProgress | None = None
        self._requested = False

    async def run(self, work: Callable[[Started], Coroutine[Any, Any, Progress]]) -> Progress | None:
        """Run a worker; gives its last progress, None where it was stopped before it began. Raises what it raises."""
        if self._requested:
            return None
        self._starting = asyncio.create_task(work(self._started))
        try:
            return await self._starting
        except asyncio.CancelledError:
            return None

    def _started(self, runner: Runner, progress: RunProgress) -> None:
        self._runner, self._progress = runner, progress

    def request(self) -> None:
        """Stop, at any moment. To call it again changes nothing."""
        if self._requested:
            return
        self._requested = True
        if self._runner is not None:
            logger.info("SIGTERM: waiting for what is in flight")
            self._runner.stop()
            asyncio.get_running_loop().call_later(self._abandon_after, self._runner.abandon)
        elif self._starting is not None:
            self._starting.cancel()

    def progress(self) -> Progress | None:
        """Counts by now; None before the worker has begun."""
        return self._progress.report() if self._progress else None

    @property
    def interrupted(self) -> bool:
        """Whether the worker was stopped with work left for a successor."""
        return self._requested and not (self._runner is not None and self._runner.finished)
