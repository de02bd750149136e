"""Whether the model server is there: a state machine over what requests and probes come to, with the clock passed in.

    there ──(two failing probes)──────────────▶ away, PROBE ──(a probe that is answered)──▶ there
    there ──(the probe is fine, nothing works)─▶ away, ERRORS ─┬(an answer to a trial)─────▶ there
    there ──(the key is refused)───────────────▶ away, KEY ────┘
    there ──(the model isn't listed)───────────▶ away, MODEL ──(it is listed)─────────────▶ there

It speaks for the server as a whole. All times are seconds of one monotonic clock.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from batchwright.api.conditions import Reason
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Kind

_FEW_LINES: Final = 2
"""Lines that must fail, with no answer to any line, before the server is at fault while others have yet to be tried."""
_MANY_LINES: Final = 16
"""So many are never taken for a few bad ones."""
_VAIN_TRIES: Final = 3
"""Tries that must find the server unavailable though a probe has just found it alive. A few come of old connections."""
_LATE_PROBES: Final = 3
"""An overloaded server answers late: what is in flight is dropped when so many probes in a row got no answer."""


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """How patient the watch is, in seconds. Tests shorten it."""

    silence: float = 5.0
    """With requests in flight and nothing coming back for so long, the server is probed."""
    probe_timeout: float = 5.0
    probe_again: float = 1.0
    """Between a failing probe and the one that settles it, and at least between any two."""
    first_poll: float = 0.5
    longest_poll: float = 10.0
    """Between looks at a server that is away; the pause doubles from the first to this one."""
    first_trial: float = 1.0
    longest_trial: float = 30.0
    """Between single requests to a server that answers its probe and nothing else."""
    patience: float = 600.0
    """After so long of such trials the lines that fail in them are charged: a job of nothing but bad lines ends."""


class Cause(Enum):
    """How it was found that the server is away, which decides how its return is found."""

    PROBE = auto()
    ERRORS = auto()
    KEY = auto()
    MODEL = auto()


_REASONS: Final = {
    Cause.PROBE: Reason.SERVER_AWAY,
    Cause.ERRORS: Reason.SERVER_AWAY,
    Cause.KEY: Reason.SERVER_UNAUTHORIZED,
    Cause.MODEL: Reason.MODEL_NOT_FOUND,
}
_TRIED: Final = frozenset({Cause.ERRORS, Cause.KEY})
"""Whose end is found by single requests."""


@dataclass(frozen=True, slots=True)
class Away:
    """The server can't be used."""

    cause: Cause
    message: str
    since: float

    @property
    def reason(self) -> Reason:
        """As the BatchJob's condition has it."""
        return _REASONS[self.cause]


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that ended without a real answer."""

    kind: Kind
    line: str
    cause: str
    began: float
    clean: bool = True
    """Whether its line has no charge yet."""
    heard: bool = True
    """Whether the server said anything at all."""
    after: float | None = None
    """Seconds after which the server wants to be asked again."""


class Health(Enum):
    """What a probe came to."""

    ALIVE = auto()
    """Any answer below 500: a server may have no /health, or want a key for it."""
    GONE = auto()
    """No connection, a broken one, or an answer that says so."""
    LATE = auto()
    """No answer in time."""


class Step(Enum):
    """What the watch is to do now."""

    PROBE = auto()
    ASK_MODELS = auto()


@dataclass(slots=True)
class _Pauses:
    """Pauses that double from the first to the longest, shortened by chance, so that workers don't come at once."""

    first: float
    longest: float
    chance: Callable[[], float]
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.first

    def restart(self) -> None:
        self._next = self.first

    def take(self) -> float:
        pause = self._next
        self._next = min(pause * 2, self.longest)
        return pause * (0.5 + self.chance() / 2)


class Availability:
    """What is known of the server. Events go in by methods in the past tense; the rest are questions."""

    def __init__(self, times: WatchTimes | None = None, *, chance: Callable[[], float] = random.random) -> None:
        """`chance` is evenly distributed over [0, 1)."""
        self.times = times or WatchTimes()
        self.away: Away | None = None
        self._answered_at = -math.inf
        self._doubted = False
        """Whether anything below may differ from its start. It spares every answer of a healthy server the look."""
        self._quiet_since = -math.inf
        self._held_until = -math.inf
        self._failures: set[str] = set()
        """Lines whose tries failed since the last answer to any line."""
        self._clean_failures: set[str] = set()
        """Those of them that have no charge."""
        self._spared: set[str] = set()
        self._suspected = False
        self._failing_probes = 0
        self._probe_from = -math.inf
        self._alive_at: float | None = None
        self._vain_tries = 0
        self._cause_since = 0.0
        self._polls = _Pauses(self.times.first_poll, self.times.longest_poll, chance)
        self._poll_at = 0.0
        self._trials = _Pauses(self.times.first_trial, self.times.longest_trial, chance)
        self._trial_at = 0.0
        self._trying = False

    # Events

    def sent(self, now: float) -> None:
        """A request goes out, with none in flight before it."""
        self._quiet_since = now

    def answered(self, now: float, began: float) -> None:
        """A line got a real answer, 2xx or a final refusal, to a try that began at `began`."""
        self._answered_at = self._quiet_since = now
        if self._doubted:
            self._clear_doubts(began)

    def _clear_doubts(self, began: float) -> None:
        self._failing_probes = 0
        self._held_until = -math.inf
        self._failures.clear()
        self._clean_failures.clear()
        self._spared.clear()
        self._suspected = False
        self._alive_at = None
        self._vain_tries = 0
        # What was let in with the old key, or before the model was gone, says nothing of now.
        outdated = self.away and self.away.cause in (Cause.KEY, Cause.MODEL) and began < self._cause_since
        if not outdated:
            self.away = None
            self._doubted = False

    def failed(self, now: float, failure: Failure) -> None:
        """A try ended without a real answer."""
        self._doubted = True
        if failure.heard:
            self._quiet_since = now
        match failure.kind:
            case Kind.UNAVAILABLE | Kind.BROKEN_OFF:
                self._unavailable(now, failure)
            case Kind.CHARGED | Kind.FORBIDDEN:
                self._note_failure(failure)
            case Kind.PACED:
                self._paced(now, failure)
            case Kind.UNAUTHORIZED if not self.answered_since(failure.began):
                self._leave(now, Cause.KEY, failure.cause)

    def _note_failure(self, failure: Failure) -> None:
        if len(self._failures) < _MANY_LINES:
            self._failures.add(failure.line)
        if failure.clean and len(self._clean_failures) < _MANY_LINES:
            self._clean_failures.add(failure.line)

    def _paced(self, now: float, failure: Failure) -> None:
        """A server that asks for patience is there."""
        self._alive_at = None
        self._vain_tries = 0
        if failure.after is not None and not self.answered_since(failure.began):
            self._held_until = max(self._held_until, now + failure.after)
        if self.away and self.away.cause is Cause.ERRORS:
            self.away = None

    def _unavailable(self, now: float, failure: Failure) -> None:
        if self.answered_since(failure.began) or (self.away and self.away.cause is Cause.PROBE):
            return
        self._suspected = True
        if self._alive_at is not None and failure.began >= self._alive_at:
            self._vain_tries += 1
            if self._vain_tries >= _VAIN_TRIES:
                self._leave(now, Cause.ERRORS, failure.cause)

    def trial_began(self) -> None:
        """The one request of a trial goes out."""
        self._trying = True

    def trial_ended(self, now: float) -> None:
        """It came back, with whatever outcome."""
        self._trying = False
        self._trial_at = now + self._trials.take()

    def probed(self, now: float, health: Health, *, began: float, cause: str = "") -> bool:
        """A probe that began at `began` came to its end. Gives whether to drop what is in flight."""
        self._doubted = True
        self._suspected = False
        self._probe_from = now + self.times.probe_again
        if health is Health.ALIVE:
            self._found_alive(now)
            return False
        if self.answered_since(began):  # a request knows better
            return False
        self._failing_probes += 1
        self._suspected = True
        if self._failing_probes == 1:
            return False
        self._leave(now, Cause.PROBE, cause)
        self._poll_at = now + self._polls.take()
        return health is Health.GONE or self._failing_probes >= _LATE_PROBES

    def _found_alive(self, now: float) -> None:
        self._failing_probes = 0
        self._alive_at = self._quiet_since = now
        if self.away and self.away.cause is Cause.PROBE:
            self.away = None

    def models_asked(self, now: float, listing: Listing, *, cause: str = "") -> None:
        """The server was asked for its models."""
        self._doubted = True
        match listing:
            case Listing.UNLISTED:
                self._leave(now, Cause.MODEL, cause)
            case Listing.REFUSED:
                self._leave(now, Cause.KEY, cause)
            case Listing.UNREACHABLE:
                self._suspected = True
            case Listing.LISTED | Listing.NO_LIST if self.away and self.away.cause is Cause.MODEL:
                self.away = None
        self._poll_at = now + self._polls.take()

    def key_changed(self, now: float) -> None:
        """The file of the API key holds another one."""
        self._trials.restart()
        self._trial_at = now

    def _leave(self, now: float, cause: Cause, message: str) -> None:
        if self.away is None or self.away.cause is not cause:
            self._cause_since = now
            self._polls.restart()
            self._trials.restart()
            self._trial_at = now + self._trials.take()
        self.away = Away(cause, message, self.away.since if self.away else now)

    # Questions

    def is_open(self, now: float) -> bool:
        """Whether requests may go out, as many as the limit allows."""
        return self.away is None and now >= self._held_until

    def wants_trial(self, now: float) -> bool:
        """Whether one request is to find out if the server works again."""
        return self._is_tried and not self._trying and now >= self._trial_at

    @property
    def _is_tried(self) -> bool:
        return self.away is not None and self.away.cause in _TRIED

    def answered_since(self, moment: float) -> bool:
        """Whether any line got a real answer after a moment."""
        return self._answered_at > moment

    def charges(self, now: float, failure: Failure, *, ended: float, in_flight: int, untried: bool) -> bool:
        """Whether a failure counts against its line. To be asked late, after the pause that follows it.

        `in_flight`: the requests of other lines; `untried`: there are lines that have not been sent yet.
        """
        if self.answered_since(ended):
            return True
        self._doubted = True
        if self.away is None and not self._is_doubtful(ended, untried):
            charged = not self._is_spared(now, failure.line, in_flight)
            if charged:
                self._clean_failures.discard(failure.line)
            return charged
        if self.away is None:
            self._leave(now, Cause.ERRORS, failure.cause)
        return self.is_out_of_patience(now)

    def _is_doubtful(self, ended: float, untried: bool) -> bool:
        """Whether the server is rather at fault than the lines that failed, none having been answered after this one.

        When a server breaks down, all lines fail that are in flight, and others were answered just before. The end of a
        job looks the same, when a few bad lines are all that is left.
        """
        failing = len(self._failures)
        if failing >= _MANY_LINES or (untried and failing >= _FEW_LINES):
            return True
        worked_lately = self.answered_since(ended - self.times.silence)
        return not worked_lately and len(self._clean_failures) >= _FEW_LINES

    def _is_spared(self, now: float, line: str, in_flight: int) -> bool:
        """The first line to fail while others still wait, in silence, is spared once: they may all be about to fail."""
        silent = in_flight > 0 and now - self._quiet_since >= self.times.silence
        if not silent or line in self._spared:
            return False
        self._spared.add(line)
        return True

    def is_out_of_patience(self, now: float) -> bool:
        """Whether nothing but errors came for so long that the lines themselves may be the cause."""
        erring = self.away is not None and self.away.cause is Cause.ERRORS
        return erring and now - self._cause_since >= self.times.patience

    def step(self, now: float, in_flight: int) -> Step | None:
        """What the watch is to do now; None: nothing before `next_at`."""
        if self._models_at() <= now:
            return Step.ASK_MODELS
        return Step.PROBE if self._probe_at(in_flight) <= now else None

    def next_at(self, now: float, in_flight: int) -> float:
        """When there is something to do or to let through next, as far as is known; infinity: nothing.

        A trial that is due waits for nobody but a line, so it is none.
        """
        trial_at = self._trial_at if self._is_tried and self._trial_at > now else math.inf
        held_until = self._held_until if self._held_until > now else math.inf
        return min(self._probe_at(in_flight), self._models_at(), trial_at, held_until)

    def _models_at(self) -> float:
        return self._poll_at if self.away and self.away.cause is Cause.MODEL else math.inf

    def _probe_at(self, in_flight: int) -> float:
        if self.away and self.away.cause is Cause.PROBE:
            return self._poll_at
        if self._suspected:
            return self._probe_from
        return max(self._probe_from, self._quiet_since + self.times.silence) if in_flight else math.inf
