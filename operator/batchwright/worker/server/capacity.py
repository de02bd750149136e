"""How much room the server has, told from its own metrics. Pure.

What fits is learned where it shows: the number at work while others wait. Batch traffic stays somewhat below it, so
that whoever comes finds a free place. All workers see the same numbers, so all come to the same answer, and whatever
has to be given up each gives up in proportion to what it has: with an equal increase for each that leads to equal
shares (Chiu and Jain, 1989).
"""

import math
from dataclasses import dataclass
from typing import Final

from batchwright.worker.server.concurrency import ServerLoad

STEPS: Final = 2.5
"""Requests that came during so many steps of the engine wait for its next one, not for others to end; it may be a step
ahead of what it shows."""
QUEUED: Final = 0.03
"""So many more may wait, as a part of the requests at work, and one in any case."""
LONG_QUEUE: Final = 0.25
"""Such a part waits only where too much was sent, even if no limit shows otherwise."""
STEADY: Final = 0.98
"""At a real limit the number at work stays the same while others wait; in a burst it does not."""
NEAR_MOST: Final = 0.9
FORGETTING: Final = 0.99
"""Of the most that was seen at work, with each sample: a limit that fell by half is taken for one after a minute."""
FRONT_END: Final = 0.4
FRONT_END_SECONDS: Final = 0.05
FRONT_END_GROWTH: Final = 4.0
FRONT_END_ANSWERS: Final = 8
"""Where answers spent such a part of their time in the HTTP front end, so many seconds, and so many times more than at
best, it is what they wait for, and more requests in flight would only wait there. So many answers tell it."""
HEADROOM: Final = 0.03
MAX_HEADROOM: Final = 0.2
"""Part of the capacity that stays free, at least and at most: the more, the more often a queue was seen."""
MEMORY: Final = 0.1
"""Weight of a sample in the average length of the queue."""
CACHE_TARGET: Final = 0.95
"""Beyond it the engine is about to preempt: requests are thrown out of the cache and computed again."""
CACHE_FULL: Final = 0.9
"""Beyond it the cache is what others wait for, and the number at work is chance: it depends on their lengths."""
LEAST_CACHE: Final = 0.01
"""Below it the cache doesn't show how many requests it holds."""
CACHE_LAG: Final = 0.2
"""Sequences fill the cache only as they grow: so much of the room that it seems to have may be used at a time."""
HOLD_SAMPLES: Final = 5
"""So many samples without a queue at full use, before it is tried whether there is more capacity than before."""
PROBE: Final = 0.02
MAX_PROBE: Final = 0.08
"""How much more is tried; doubled with every other sample, up to the second."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a sample of the metrics says about requests in flight."""

    excess: float
    """Requests in flight, of everybody together, should become this many times fewer; at most 1 where all fit."""
    spare: float
    """So many more would fit; infinite where no limit has shown."""
    cache_spare: float
    """So many more may be let into the cache at a time."""
    share: float
    """By how much a worker may always grow."""
    queued: bool
    """Somebody waits."""


class Capacity:
    """What the server can work on at once, as far as it has shown."""

    def __init__(self) -> None:
        self._most: float | None = None
        self._probe = PROBE
        self._calm = 0
        self._queued_at: int | None = None
        self._seen = 0.0
        self._waiting = 0.0
        self._front_end = math.inf

    @property
    def share(self) -> float:
        """By how much a worker may always grow, so that the small ones catch up."""
        return 0.5 if self._most is None else max(0.5, self._most / 200)

    def sampled(self, load: ServerLoad) -> Room:
        """Learn from a sample that holds one request at least, and say what it means."""
        waiting = _queue(load)
        total = waiting + load.running
        queued = is_queue(load)
        too_long = self._queued_at is not None and waiting > max(1.0, LONG_QUEUE * load.running)
        self._learn(load, total, queued)
        self._queued_at = load.running if queued else None
        self._waiting += MEMORY * (waiting / max(1.0, total) - self._waiting)
        headroom = min(MAX_HEADROOM, HEADROOM + self._waiting)
        most = math.inf if self._most is None else self._most
        if too_long:
            most = min(most, max(1.0, load.running))
        target = most * (1 - headroom)
        # Of those that come during a step some have to wait for the next, or it would have hardly any.
        next_step = _passing(load) / 2
        shows = load.running and load.kv_cache_usage > LEAST_CACHE
        cached = load.running * CACHE_TARGET / load.kv_cache_usage if shows else math.inf
        return Room(
            excess=max((total + next_step) / (target + next_step), total / max(1.0, cached)),
            spare=target - total,
            cache_spare=cached - total,
            share=self.share,
            queued=queued,
        )

    def idled(self, load: ServerLoad) -> bool:
        """Take a sample that holds hardly any request. Says whether more would fit, by the one before too."""
        if _queue(load) > 1 or load.kv_cache_usage > CACHE_TARGET:
            return False
        calm, self._queued_at = self._queued_at is None, None
        return calm

    def is_front_end_full(self, load: ServerLoad) -> bool:
        """Whether answers waited in the front end for what more requests would only wait for longer."""
        if load.latest is None or load.latest.count < FRONT_END_ANSWERS:
            return False
        front_end = load.latest.front_end
        self._front_end = min(self._front_end, front_end)
        least = max(FRONT_END_SECONDS, FRONT_END * load.latest.seconds, FRONT_END_GROWTH * self._front_end)
        return front_end > least

    def _learn(self, load: ServerLoad, total: float, queued: bool) -> None:
        self._seen = max(FORGETTING * self._seen, load.running)
        if queued and self._is_limit(load):
            self._most = float(load.running)
        elif queued and self._most is not None:
            # One sample may be a burst that the next step takes in; it only ends the search for more.
            self._most = min(self._most, max(1.0, total))
        elif self._most is not None and total >= (1 - 4 * HEADROOM) * self._most:
            self._search()
        if queued:
            self._calm, self._probe = 0, PROBE

    def _is_limit(self, load: ServerLoad) -> bool:
        """Whether no more than are at work can be, now that others wait."""
        if self._queued_at is None or not load.running or max(load.kv_cache_usage, load.fullest_kv_cache) > CACHE_FULL:
            return False
        low, high = sorted((self._queued_at, load.running))
        return low >= STEADY * high and high >= NEAR_MOST * self._seen

    def _search(self) -> None:
        self._calm += 1
        if self._calm > HOLD_SAMPLES and self._most is not None:
            self._most *= 1 + self._probe
            self._probe = min(MAX_PROBE, self._probe * (2 if self._calm % 2 else 1))


def is_queue(load: ServerLoad) -> bool:
    """Whether requests wait for others to end."""
    return _queue(load) > max(1.0, QUEUED * load.running)


def _queue(load: ServerLoad) -> float:
    return max(0.0, load.waiting - _passing(load))


def _passing(load: ServerLoad) -> float:
    """Requests that may wait for the engine's next steps."""
    return STEPS * load.in_a_step
