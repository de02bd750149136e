"""Whether the model server is there: a state machine over what requests and probes come to, with the clock passed in.

    there ──(two failing probes)──────────────▶ away, PROBE ──(a probe that is answered)──▶ there
    there ──(the probe is fine, nothing works)─▶ away, ERRORS ─┬(an answer to a trial)─────▶ there
    there ──(nothing but 429 for a minute)─────▶ away, PACED ──┤
    there ──(the key is refused)───────────────▶ away, KEY ────┘
    there ──(the model isn't listed)───────────▶ away, MODEL ──(it is listed)─────────────▶ there

It speaks for the server as a whole. All times are seconds of one monotonic clock.
"""

import math
import random
from collections.abc import Callable
from typing import Final

from batchwright.worker.server.findings import Away, Cause, Failure, Health, Step, WatchTimes
from batchwright.worker.server.models import Listing
from batchwright.worker.server.pauses import Pauses
from batchwright.worker.server.verdicts import Kind

_FEW_LINES: Final = 2
"""Lines that must fail, with no answer to any line, before the server is at fault while others have yet to be tried."""
_MANY_LINES: Final = 16
"""So many are never taken for a few bad ones."""
_VAIN_TRIES: Final = 3
"""Tries that must find the server unavailable though a probe has just found it alive. A few come of old connections."""
_LATE_PROBES: Final = 3
"""An overloaded server answers late: what is in flight is dropped when so many probes in a row got no answer."""
_TRIED: Final = frozenset({Cause.ERRORS, Cause.PACED, Cause.KEY})
"""Whose end is found by single requests."""


class Availability:
    """What is known of the server. Events go in by methods in the past tense; the rest are questions."""

    def __init__(
        self,
        times: WatchTimes | None = None,
        *,
        has_untried: Callable[[], bool] = lambda: False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`has_untried`: whether there are lines that have not been sent yet. `chance` is evenly distributed over
        [0, 1).
        """
        self.times = times or WatchTimes()
        self.away: Away | None = None
        self.has_untried: Final = has_untried
        self._changed_at = -math.inf
        """When the server went away or came back last."""
        self._answered_at = -math.inf
        self._answered_begun = -math.inf
        """When the latest of the tries that were answered began."""
        self._doubted = True
        """Whether anything below may differ from its start. It spares every answer of a healthy server the look."""
        self._quiet_since = -math.inf
        self._held_until = -math.inf
        self._paced_since: float | None = None
        self._forbidden_begun = -math.inf
        self._failures: set[str] = set()
        """Lines without an outcome whose tries failed since the last answer to any line."""
        self._clean_failures: set[str] = set()
        """Those of them that have no charge."""
        self._at_their_expense = False
        """Whether patience is at its end: what fails is charged until a line is answered."""
        self._suspected = False
        self._compared = False
        """Whether a probe was made while requests were answered."""
        self._believed = False
        """Whether a probe that is answered with an error tells anything."""
        self._erring = False
        """Whether the last probe was answered with an error."""
        self._failing_probes = 0
        self._probe_from = -math.inf
        self._alive_at: float | None = None
        self._alive_begun = -math.inf
        """When the last probe that found it alive began."""
        self._vain_tries = 0
        self._cause_since = 0.0
        self._polls = Pauses(self.times.first_poll, self.times.longest_poll, chance)
        self._poll_at = 0.0
        self._trials = Pauses(self.times.first_trial, self.times.longest_trial, chance)
        self._trial_at = 0.0
        self._trying = False

    # Events

    def sent(self, now: float) -> None:
        """A request goes out, with none in flight before it."""
        self._quiet_since = now

    def answered(self, now: float, began: float) -> None:
        """A line got a real answer, 2xx or a final refusal, to a try that began at `began`."""
        self._answered_at = self._quiet_since = now
        if began > self._answered_begun:  # noqa: PLR1730 - for each answer, and max() takes longer
            self._answered_begun = began
        if self._doubted:
            self._clear_doubts(now, began)

    def _clear_doubts(self, now: float, began: float) -> None:
        if self._erring and self.away and self.away.cause is Cause.PROBE and began > self._cause_since:
            self._believed = False  # it works, whatever its probe says
        self._failing_probes = 0
        self._held_until = -math.inf
        self._paced_since = None
        self._failures.clear()
        self._clean_failures.clear()
        self._at_their_expense = False
        # One look while all is well: from then on it is known whether an error of the probe tells anything.
        self._suspected = not (self._compared or self._believed)
        self._compared = True
        self._alive_at = None
        self._vain_tries = 0
        # What was let in with the old key, or before the model was gone, says nothing of now.
        outdated = self.away and self.away.cause in (Cause.KEY, Cause.MODEL) and began < self._cause_since
        if not outdated:
            self._return(now)
            self._doubted = False

    def failed(self, now: float, failure: Failure) -> None:
        """A try ended without a real answer."""
        self._doubted = True
        if failure.heard:
            self._quiet_since = now
        match failure.kind:
            case Kind.UNAVAILABLE | Kind.BROKEN_OFF:
                self._unavailable(now, failure)
            case Kind.CHARGED:
                self._note_failure(failure)
            case Kind.FORBIDDEN:
                self._forbidden_begun = failure.began
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

    def forget(self, line: str) -> None:
        """A line has its outcome."""
        self._failures.discard(line)
        self._clean_failures.discard(line)

    def _paced(self, now: float, failure: Failure) -> None:
        """A server that asks for patience is there, but one that does nothing else is of no use."""
        self._alive_at = None
        self._vain_tries = 0
        if self.answered_since(failure.began):
            return
        if failure.after is not None:
            self._held_until = max(self._held_until, now + failure.after)
        if self._paced_since is None:
            self._paced_since = now
        if self.away and self.away.cause not in (Cause.ERRORS, Cause.PACED):
            return
        if now - self._paced_since >= self.times.pacing:
            message = f"{failure.cause} It asks for patience, and answers nothing else."
            self._leave(now, Cause.PACED, message, since=self._paced_since)
        elif self.away and self.away.cause is Cause.ERRORS:
            self._return(now)

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
        self._erring = health is Health.ERRING
        if health is Health.ALIVE or (self._erring and not self._believed):
            self._believed |= health is Health.ALIVE
            self._found_alive(now, began)
            return False
        if self.answered_since(began):  # a request knows better
            return False
        self._failing_probes += 1
        self._suspected = True
        self._alive_at = None
        self._vain_tries = 0
        if self._failing_probes == 1:
            return False
        self._leave(now, Cause.PROBE, cause)
        self._poll_at = now + self._polls.take()
        return health is not Health.LATE or self._failing_probes >= _LATE_PROBES

    def _found_alive(self, now: float, began: float) -> None:
        self._failing_probes = 0
        self._alive_at = self._quiet_since = now
        self._alive_begun = began
        if self.away and self.away.cause is Cause.PROBE:
            self._return(now)
        elif self._patience_ends_at() <= now:
            self._return(now)
            self._at_their_expense = True

    def models_asked(self, now: float, listing: Listing, *, cause: str = "", in_flight: int = 0) -> None:
        """The server was asked for its models.

        One line that is refused tells nothing of the key while others are answered, or may be: are `in_flight`.
        """
        self._doubted = True
        match listing:
            case Listing.UNLISTED:
                self._leave(now, Cause.MODEL, cause)
            case Listing.REFUSED if self.away or (
                not self.answered_since(self._forbidden_begun) and (in_flight == 0 or len(self._failures) >= _FEW_LINES)
            ):
                self._leave(now, Cause.KEY, cause)
            case Listing.UNREACHABLE:
                self._suspected = True
            case Listing.LISTED | Listing.NO_LIST if self.away and self.away.cause is Cause.MODEL:
                self._return(now)
        self._poll_at = now + self._polls.take()

    def key_changed(self, now: float) -> None:
        """The file of the API key holds another one."""
        self._trials.restart()
        self._trial_at = now

    def _leave(self, now: float, cause: Cause, message: str, since: float | None = None) -> None:
        if self.away is None:
            self._changed_at = now
        if self.away is None or self.away.cause is not cause:
            self._cause_since = now if since is None else since
            self._at_their_expense = False
            self._polls.restart()
            self._trials.restart()
            self._trial_at = now + self._trials.take()
        self.away = Away(cause, message, self._cause_since)

    def _return(self, now: float) -> None:
        if self.away is not None:
            self.away = None
            self._changed_at = now

    # Questions

    def is_open(self, now: float) -> bool:
        """Whether requests may go out, as many as the limit allows."""
        return self.away is None and now >= self._held_until

    def wants_trial(self, now: float) -> bool:
        """Whether one request is to find out if the server works again."""
        return self._is_tried and not self._trying and now >= max(self._trial_at, self._held_until)

    @property
    def _is_tried(self) -> bool:
        if self.away is None:
            return False
        return self.away.cause in _TRIED or (self.away.cause is Cause.PROBE and self._erring)

    def answered_since(self, moment: float) -> bool:
        """Whether any line got a real answer after a moment."""
        return self._answered_at > moment

    def answered_sent_since(self, moment: float) -> bool:
        """Whether any line that was sent after a moment got a real answer."""
        return self._answered_begun > moment

    def worked_since(self, moment: float) -> bool:
        """Whether a line was answered after a moment, or a probe found the server alive."""
        return self._answered_at > moment or self._alive_begun > moment

    def settles(self, now: float, failure: Failure, *, ended: float, oldest: float) -> bool | None:
        """Whether a failure counts against its line; None: it can't be told yet.

        To be asked after the pause that follows it, and again when a request or a probe has ended. `oldest`: when the
        oldest of the requests began that are in flight; infinity: there is none. As long as one is that was in flight
        when the try failed, it may yet be answered, which shows whose fault it was. So may any, while lines are left
        that have not been sent.
        """
        if self.away or self._changed_at > failure.began:
            return False
        if self.answered_since(ended):
            return True
        if oldest <= ended or (oldest < math.inf and self.has_untried()):
            return None
        self._doubted = True
        if self._alive_begun < ended:
            self._suspected = True
            return None
        if self._at_their_expense or not self._is_doubtful(ended):
            self._clean_failures.discard(failure.line)
            return True
        self._leave(now, Cause.ERRORS, failure.cause)
        return False

    def _is_doubtful(self, ended: float) -> bool:
        """Whether the server is rather at fault than the lines that failed, none having been answered after this one.

        When a server breaks down, all lines fail that are in flight, and others were answered just before. The end of a
        job looks the same, when a few bad lines are all that is left.
        """
        failing = len(self._failures)
        if failing >= _MANY_LINES or (failing >= _FEW_LINES and self.has_untried()):
            return True
        worked_lately = self.answered_since(ended - self.times.silence)
        return not worked_lately and len(self._clean_failures) >= _FEW_LINES

    def _patience_ends_at(self) -> float:
        """When lines are charged though no other is answered: infinity as long as there are others to try."""
        if self.away and self.away.cause is Cause.ERRORS and self._failures and not self.has_untried():
            return self.away.since + self.times.patience
        return math.inf

    def step(self, now: float, in_flight: int) -> Step | None:
        """What the watch is to do now; None: nothing before `next_at`."""
        if self._models_at() <= now:
            return Step.ASK_MODELS
        return Step.PROBE if self._probe_at(in_flight) <= now else None

    def next_at(self, now: float, in_flight: int) -> float:
        """When there is something to do or to let through next, as far as is known; infinity: nothing.

        A trial that is due waits for nobody but a line, so it is none.
        """
        trial_at = max(self._trial_at, self._held_until) if self._is_tried else math.inf
        if trial_at <= now:
            trial_at = math.inf
        held_until = self._held_until if self._held_until > now else math.inf
        return min(self._probe_at(in_flight), self._models_at(), trial_at, held_until)

    def _models_at(self) -> float:
        return self._poll_at if self.away and self.away.cause is Cause.MODEL else math.inf

    def _probe_at(self, in_flight: int) -> float:
        if self.away and self.away.cause is Cause.PROBE:
            return self._poll_at
        if self._suspected:
            return self._probe_from
        silent_at = self._quiet_since + self.times.silence if in_flight else math.inf
        return max(self._probe_from, min(silent_at, self._patience_ends_at()))
