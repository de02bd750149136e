"""A model of an engine that works in steps, as vLLM does: one token for each request at work, then the next step.

Between two steps those that have ended go, and those that have come begin; only then are its numbers written. For
answers of hundreds of tokens that is as in `server.py`. Of embeddings and very short answers its numbers show hardly
any at work, and as many waiting as came during a step.
"""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bench.concurrency.clock import Clock
from bench.concurrency.server import End, Request, with_answer

from batchwright.worker.server.concurrency import ServerLoad
from batchwright.worker.server.load import AnswerTotals

NETWORK_SECONDS = 0.003
"""From a client to the engine."""
CACHE_USAGE = 0.5
"""Where all slots are taken."""


@dataclass(frozen=True, slots=True)
class SteppingSettings:
    slots: int
    """Requests that are at work at once (vLLM's max_num_seqs)."""
    begun: int
    """So many begin with a step at most: their prompts fill it (vLLM's max_num_batched_tokens)."""
    step: float
    """Seconds that a step takes."""
    each: float = 0.0
    """Seconds more for each request in it."""
    tokens: int = 1
    """That each request gets in a step: more with a draft model, whose guesses the metrics tell apart."""
    ahead: bool = True
    """Whether the next step is put together before this one has ended (vLLM's asynchronous scheduling)."""
    metrics: bool = True

    def start(self, clock: Clock) -> "SteppingServer":
        return SteppingServer(clock, self)


@dataclass(slots=True)
class Underway:
    request: Request
    left: int
    """Steps until it ends."""
    planned: int
    """Steps that it isn't in yet."""


@dataclass(slots=True)
class SteppingServer:
    """The work of a request is its number of tokens. This one neither fails nor changes."""

    clock: Clock
    settings: SteppingSettings
    down: bool = False
    preemptions: int = 0
    totals: AnswerTotals = field(default_factory=AnswerTotals)
    _running: list[Underway] = field(default_factory=list)
    _waiting: list[tuple[int, int, Request]] = field(default_factory=list)
    _working: bool = False
    _shown: tuple[int, int] = (0, 0)
    _orders: "itertools.count[int]" = field(default_factory=itertools.count)

    def submit(self, request: Request) -> None:
        request.came = self.clock.now
        request.order = next(self._orders)
        self.clock.after(NETWORK_SECONDS, lambda: self._enter(request))

    def _enter(self, request: Request) -> None:
        request.arrived = self.clock.now
        heapq.heappush(self._waiting, (request.priority, request.order, request))
        if not self._working:
            self._working = True
            self._step(self._put_together())

    def load(self) -> ServerLoad:
        """As they were written after the last step."""
        waiting, running = self._shown
        return ServerLoad(waiting, running, CACHE_USAGE * running / self.settings.slots)

    def requests(self) -> tuple[int, int]:
        """How many wait, and how many are at work, whatever the metrics say."""
        return len(self._waiting), len(self._running)

    def _steps(self, request: Request) -> int:
        return max(1, math.ceil(request.work / self.settings.tokens))

    def _put_together(self) -> list[Underway]:
        for _ in range(min(self.settings.begun, self.settings.slots - len(self._running), len(self._waiting))):
            request = heapq.heappop(self._waiting)[2]
            request.began = self.clock.now
            steps = self._steps(request)
            self._running.append(Underway(request, left=steps, planned=steps))
        batch = [one for one in self._running if one.planned]
        for one in batch:
            one.planned -= 1
        return batch

    def _step(self, batch: Sequence[Underway]) -> None:
        following = self._put_together() if self.settings.ahead else []
        seconds = self.settings.step + self.settings.each * len(batch)
        self.clock.after(seconds, lambda: self._end(batch, following))

    def _end(self, batch: Sequence[Underway], following: Sequence[Underway]) -> None:
        for one in batch:
            one.left -= 1
        self.totals = replace(self.totals, steps=self.totals.steps + len(batch))
        ended = [one.request for one in batch if not one.left]
        self._running = [one for one in self._running if one.left]
        self._shown = self.requests()
        for request in ended:
            self.totals = with_answer(self.totals, request, self.clock.now)
            request.done(End.ANSWERED)
        following = following or self._put_together()
        self._working = bool(following)
        if following:
            self._step(following)
