"""As many requests in flight as the server has a use for, found while it runs. Pure: the clock is passed in.

What it goes by, the most telling first:

- the server's own metrics, where it shows them: as many as fit without a queue, less some room for others;
- how long answers take, where there are none: as many as can be sent before they begin to wait;
- 429, 503 and answers that don't come in time, in both cases.

Why this and nothing simpler, with the measurements: docs/adr/0004-adaptive-concurrency.md.
"""

import math
from typing import Final

from batchwright.worker.server.capacity import CACHE_LAG, Capacity, Room, is_queue
from batchwright.worker.server.concurrency import ServerLoad, Signal
from batchwright.worker.server.queueing import Queueing, Round

INITIAL_LIMIT: Final = 4
USED: Final = 0.75
"""A limit of which less than this part is used says nothing about the server, and does not grow (RFC 7661)."""
OVERLOADED: Final = 0.1
"""Part of the latest tries that may find the server overloaded: single ones are not worth a cut (aibrix#2451)."""
OVERLOAD_FACTOR: Final = 0.7
OVERLOAD_SECONDS: Final = 1.0
"""Between two cuts for overload."""
HOLD_SECONDS: Final = 5.0
"""After overload the metrics can't show what refuses the requests, and growing by them waits."""
FRESH_SECONDS: Final = 12.5
"""For so long a sample of the metrics counts: as long as it takes to miss one, with the most workers."""
PATIENCE: Final = 4.0
"""Answers so many samples long overrule the number that waits, once the limit no longer doubles from one to the next:
a queue that they have not seen is one of a moment. Meanwhile nothing grows."""
OWN: Final = 0.75
LEAST_OWN: Final = 8
OWN_SECONDS: Final = 15.0
"""Where the engine has such a part of so many requests in flight, the numbers are of the server that they went to.
For so long after that, an engine that seems idle is one between two waves: short answers come together, the next
requests set out together, and most of the time they are in the server's HTTP front end."""
SEEN: Final = 0.25
"""An engine that has less than such a part of the requests in flight is idle, or another server's."""
COUNTED: Final = 0.25
"""A server that has counted less than such a part of the answers that came is another one."""
STARTING_QUEUE: Final = 0.3
QUEUE: Final = 0.2
"""Part of an answer's time that may be waiting, while starting and later; and more, the fewer answers say so."""
STARTING_ANSWERS: Final = 8
ANSWERS: Final = 32
"""Answers in a round, at least: so that chance in their lengths does not pass for a queue."""
CURVE: Final = 0.05
SLOPE: Final = 0.25
"""How the limit comes back after a cut, in requests for each round trip: fast to where it was cut, slowly past it, then
ever faster, as in CUBIC (RFC 9438)."""


class AdaptiveLimit:
    """Between 1 and `maximum`. It doubles with every round trip at first, or with every sample of the metrics."""

    def __init__(self, maximum: int, initial: int = INITIAL_LIMIT) -> None:
        if min(initial, maximum) < 1:
            raise ValueError(f"a limit is at least 1, not {initial} to {maximum}")
        self._maximum = float(maximum)
        self._initial = float(min(initial, maximum))
        self._begin(-math.inf)

    def _begin(self, now: float) -> None:
        self._exact = self._initial
        self._starting = True
        self._in_flight = 0
        self._most_in_flight = 0
        self._answers = 0
        self._only_answers = True
        self._cut_at = now
        self._round_at = now
        self._sampled_at = -math.inf
        self._own_at = -math.inf
        self._hold_until = now
        self._overloads = 0.0
        self._step = 0.0
        self._round_trips = 0.0
        self._plateau = 0.0
        self._queueing = Queueing()
        self._capacity = Capacity()

    @property
    def limit(self) -> int:
        """Requests in flight allowed now."""
        return int(self._exact)

    def restart(self, now: float) -> None:
        """Begin again as at the start: a server that comes back may be another one, and has empty caches."""
        self._begin(now)

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        """A try has ended: grow, or cut. What was sent before the last cut tells nothing about the time after it."""
        self._in_flight = in_flight
        self._most_in_flight = max(self._most_in_flight, in_flight)
        self._answers += 1
        if signal is Signal.OTHER:
            return
        self._overloads += ((signal is Signal.OVERLOAD) - self._overloads) / (4 + self._exact / 2)
        sent_since_cut = now - seconds >= self._cut_at
        if signal is Signal.OVERLOAD:
            if sent_since_cut:
                self._overloaded(now, in_flight)
        elif now - self._sampled_at > FRESH_SECONDS:
            self._answered(now, seconds, in_flight, sent_since_cut)

    def loaded(self, now: float, load: ServerLoad, in_flight: int) -> None:
        """The server's metrics have been read: move to where they say that there is room."""
        # Of answers that come together the last one leaves hardly anything in flight.
        in_flight, self._most_in_flight = max(in_flight, self._most_in_flight), 0
        shown = load.with_those_between_steps()
        load = shown.without_waves(1.0 if self._starting else PATIENCE)
        idle = load.requests == 0 or load.requests < SEEN * in_flight
        if not self._is_own(now, load, in_flight, idle=idle):
            return
        self._sampled_at = now
        self._queueing.discard()
        may_grow = self._is_used(in_flight) and now >= self._hold_until
        # Between two waves of short answers an engine seems idle, though they had to wait for one another.
        may_grow &= (self._starting or not is_queue(shown)) and not is_queue(shown.in_the_mean())
        if self._capacity.is_front_end_full(load):
            may_grow = self._starting = self._only_answers = False
            self._step = 0.0
        if idle:
            if self._capacity.idled(load) and may_grow:
                self._grow_idle(load)
            return
        room = self._capacity.sampled(load)
        if room.excess > 1:
            self._shrink(room, in_flight)
        elif not room.queued and may_grow:
            self._grow_into(room)

    def _is_own(self, now: float, load: ServerLoad, in_flight: int, *, idle: bool) -> bool:
        """Whether the numbers are of the server that the requests went to."""
        answers, self._answers = self._answers, 0
        if in_flight >= LEAST_OWN and load.requests >= OWN * in_flight:
            self._own_at = now
        if not idle:
            return True
        if load.latest is not None and answers >= LEAST_OWN:
            return load.latest.count >= COUNTED * answers
        return now - self._own_at <= OWN_SECONDS

    def _is_used(self, in_flight: int) -> bool:
        return in_flight >= USED * self.limit

    def _set(self, value: float) -> None:
        self._exact = max(1.0, min(self._maximum, value))

    # By the server's metrics

    def _shrink(self, room: Room, in_flight: int) -> None:
        self._starting = self._only_answers = False
        self._step = room.share
        # From what is in flight, not from the limit, where the last cut has not come into effect yet.
        settled = self._is_used(in_flight) and in_flight <= self._exact + 1
        self._set(min(self._exact, (self._exact if settled else in_flight) / room.excess) + room.share)

    def _grow_idle(self, load: ServerLoad) -> None:
        self._take_up_start()
        if self._starting:
            self._set(2 * self._exact)
        elif load.latest is not None:
            # Its front end is not full, as `loaded` has seen; without sums that can't be told. How many fit doesn't
            # count: what is learned between two waves is no limit.
            self._step_up(self._capacity.share, math.inf)

    def _take_up_start(self) -> None:
        # Whether answers have ended the start doesn't count: a batch that grows makes them longer, too.
        self._starting |= self._only_answers
        self._only_answers = False

    def _grow_into(self, room: Room) -> None:
        self._take_up_start()
        if self._starting:
            self._set(self._exact + max(1.0, min(self._exact, room.spare, room.cache_spare / 2)))
        else:
            self._step_up(room.share, min(room.spare / 2, room.cache_spare * CACHE_LAG / 2))

    def _step_up(self, share: float, spare: float) -> None:
        step = max(share, min(self._step, spare))
        self._step = min(2 * max(self._step, share), self._exact)
        self._set(self._exact + step)

    # By overload

    def _overloaded(self, now: float, in_flight: int) -> None:
        self._hold_until = now + HOLD_SECONDS
        used = min(self._exact, float(in_flight))
        if self._overloads > OVERLOADED and now >= self._cut_at + OVERLOAD_SECONDS:
            self._cut(now, used * OVERLOAD_FACTOR, used)
            self._only_answers = False
        elif self._overloads > OVERLOADED:
            self._set(used - 1)  # the server took the others

    def _cut(self, now: float, value: float, plateau: float) -> None:
        """Go down to `value`, and come back so that the limit is steady for a while at `plateau`."""
        self._set(value)
        self._starting = False
        self._round_trips = 0.0
        self._plateau = math.cbrt(max(0.0, plateau - value) / CURVE)
        self._cut_at = self._round_at = now
        self._queueing.discard()

    # By how long answers take

    def _answered(self, now: float, seconds: float, in_flight: int, sent_since_cut: bool) -> None:
        if self._exact < self._maximum and self._is_used(in_flight):
            self._grow()
        if not sent_since_cut:
            return
        self._queueing.answered(seconds)
        if self._queueing.answers < self._round_size():
            return
        if self._starting or now - self._round_at >= seconds:
            self._end_round(now, self._queueing.end_round())

    def _round_size(self) -> float:
        if self._starting:
            return max(STARTING_ANSWERS, self._exact / 4)
        return max(ANSWERS, self._exact / 2)

    def _grow(self) -> None:
        if self._starting:
            self._set(self._exact + 1)
            return
        self._round_trips += 1 / self._exact
        slope = 3 * CURVE * (self._round_trips - self._plateau) ** 2 + SLOPE
        self._set(self._exact + min(1.0, slope / self._exact))

    def _end_round(self, now: float, ended: Round) -> None:
        self._round_at = now
        chance = 1 / math.sqrt(ended.answers)
        used = min(self._exact, float(self._in_flight))
        if self._starting and ended.queue > STARTING_QUEUE + 0.3 * chance:
            self._cut(now, used / 2, used * 0.75)
            self._queueing.cut()
        elif not self._starting and ended.queue > QUEUE + 0.4 * chance:
            self._cut(now, used * max(0.5, 1 - ended.queue) * 0.95, used * max(0.75, 1 - ended.queue / 2))
            self._queueing.cut()
            self._only_answers = False
