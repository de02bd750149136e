"""A batch as the page shows it: words and numbers, ready for a template. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from batchwright.api.duration import parse_duration
from batchwright.api.undone import Undone
from batchwright.gateway.page import words
from batchwright.gateway.records.batch_record import OPENAI, TERMINAL, BatchRecord, BatchState, Status

Tone = Literal["waiting", "working", "good", "bad", "stopped"]

LABELS: Final[dict[Status, str]] = {
    "validating": "Validating",
    "in_progress": "In progress",
    "finalizing": "Finalizing",
    "completed": "Completed",
    "failed": "Failed",
    "expired": "Expired",
    "cancelling": "Cancelling",
    "cancelled": "Cancelled",
}
TONES: Final[dict[Status, Tone]] = {
    "validating": "waiting",
    "in_progress": "working",
    "finalizing": "working",
    "completed": "good",
    "failed": "bad",
    "expired": "stopped",
    "cancelling": "waiting",
    "cancelled": "stopped",
}
_UNDONE: Final = frozenset(code.value for code in Undone)
_ANNOUNCED_STEP: Final = 10
"""In percent: what is read out changes this often, and no more."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Shares of all requests, in percent of the width."""

    completed: float = 0.0
    failed: float = 0.0

    @property
    def failed_from(self) -> float:
        """Where the failed part begins."""
        return self.completed


@dataclass(frozen=True, slots=True)
class BatchView:
    """One batch for a template."""

    record: BatchRecord
    state: BatchState
    title: str
    """Name of the input file, or its path, or the batch's id where the file is gone."""
    now: datetime

    @property
    def id(self) -> str:
        """The batch's id."""
        return self.record.id

    @property
    def label(self) -> str:
        """The status in words."""
        return LABELS[self.state.status]

    @property
    def tone(self) -> Tone:
        """What colour the status has."""
        return TONES[self.state.status]

    @property
    def live(self) -> bool:
        """Whether it will change by itself."""
        return self.state.status not in TERMINAL

    @property
    def cancellable(self) -> bool:
        """Whether it can be cancelled."""
        return self.live and self.state.status != "cancelling"

    @property
    def of_paths(self) -> bool:
        """Whether it was made by path, so that its files lie where its client said."""
        return self.record.face != OPENAI

    @property
    def done(self) -> int:
        """Requests that have ended."""
        return self.state.counts.completed + self.state.counts.failed

    @property
    def total(self) -> int:
        """All requests; 0 until the input was read."""
        return self.state.counts.total

    @property
    def never_ran(self) -> int:
        """Requests that a batch which is over ended without."""
        return 0 if self.live else max(0, self.total - self.done)

    @property
    def percent(self) -> int:
        """Requests that have ended, in whole percent, rounded down: 100 means all."""
        return min(100, 100 * self.done // self.total) if self.total else 0

    @property
    def bar(self) -> Bar:
        """The bar's parts."""
        if not self.total:
            return Bar()
        completed = min(100.0, 100 * self.state.counts.completed / self.total)
        return Bar(round(completed, 3), round(min(100 - completed, 100 * self.state.counts.failed / self.total), 3))

    @property
    def progress(self) -> str:
        """How far it is, in numbers."""
        return f"{words.count(self.done)} of {words.count(self.total)}" if self.total else ""

    @property
    def announcement(self) -> str:
        """What is read out to who can't see the bar: it changes with the status, and with every tenth."""
        if not self.total or self.state.status != "in_progress":
            return f"{self.title}: {self.label.lower()}"
        tenth = self.percent // _ANNOUNCED_STEP * _ANNOUNCED_STEP
        return f"{self.title}: {self.label.lower()}, {tenth} percent done"

    @property
    def model(self) -> str | None:
        """The model, once known."""
        return self.state.model

    @property
    def endpoint(self) -> str | None:
        """The endpoint, once known."""
        return self.state.endpoint or self.record.endpoint

    @property
    def ended_at(self) -> datetime | None:
        """When it ended."""
        times = self.state.times
        return times.completed_at or times.failed_at or times.expired_at or times.cancelled_at

    @property
    def moments(self) -> list[tuple[str, datetime]]:
        """What happened when, in order."""
        times = self.state.times
        named = [
            ("Created", self.record.created_at),
            ("Started", times.in_progress_at),
            ("Finalizing", times.finalizing_at),
            ("Cancelling", times.cancelling_at),
            ("Completed", times.completed_at),
            ("Failed", times.failed_at),
            ("Expired", times.expired_at),
            ("Cancelled", times.cancelled_at),
        ]
        reached = [(name, moment) for name, moment in named if moment is not None]
        return sorted(reached, key=lambda one: one[1])

    @property
    def took(self) -> str | None:
        """How long the run took, once it ended."""
        if self.state.response_time is not None:
            return words.duration(self.state.response_time)
        return None

    @property
    def eta(self) -> str | None:
        """Time left, as the page writes times."""
        if not self.state.eta:
            return None
        try:
            return words.duration(parse_duration(self.state.eta).total_seconds())
        except ValueError:  # a tenant may have written it
            return self.state.eta

    @property
    def usage(self) -> list[tuple[str, str]]:
        """Tokens by kind; a count that the server never reported is left out."""
        usage = self.state.usage
        named = [
            ("Input", usage.input_tokens),
            ("of these cached", usage.cached_tokens),
            ("Output", usage.output_tokens),
            ("of these reasoning", usage.reasoning_tokens),
            ("Total", usage.total_tokens),
        ]
        return [(name, words.count(number)) for name, number in named if number is not None]

    @property
    def failures(self) -> list["Failure"]:
        """Failed requests by code, the most frequent first; then those that never ran."""
        codes = sorted(self.state.error_codes.items(), key=lambda one: (one[0] in _UNDONE, -one[1], one[0]))
        most = max((number for code, number in codes if code not in _UNDONE), default=1) or 1
        return [Failure(code, meaning(code), number, _share(code, number, most)) for code, number in codes]

    @property
    def downloads(self) -> list["Download"]:
        """What can be fetched."""
        ending, published = self.record.ending, self.state.published
        if ending is None or self.of_paths:
            return []
        named = [
            ("Results", ending.output_file_id, published.output_bytes),
            ("Errors", ending.error_file_id, published.errors_bytes),
        ]
        return [Download(name, file_id, size) for name, file_id, size in named if file_id is not None]

    @property
    def retryable(self) -> bool:
        """Whether there are lines to submit again."""
        return self.record.ending is not None and not self.of_paths and bool(self.state.published.retry_bytes)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed requests of one code."""

    code: str
    meaning: str
    number: int
    share: float | None
    """Of the most frequent one, in percent; None for requests that never ran, since their batch was stopped."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file that can be fetched."""

    name: str
    file_id: str
    bytes: int | None


_MEANINGS: Final = {
    "400": "the server took the request for invalid",
    "401": "the server refused the API key",
    "403": "the server refused the API key",
    "404": "the server knows no such model or path",
    "408": "the server gave up waiting",
    "413": "the request was too large for the server",
    "422": "the server took the request for invalid",
    "429": "the server was asked too often",
    "500": "the server failed",
    "502": "a proxy got no answer from the server",
    "503": "the server was away",
    "504": "a proxy waited too long for the server",
    "request_timeout": "no answer within the time for a request",
    "connection_error": "the connection broke",
    "batch_cancelled": "not run: the batch was cancelled",
    "batch_expired": "not run: the completion window ended",
    "batch_failed": "not run: the batch failed",
    "worker_failed": "not run: workers died on it",
}


def _share(code: str, number: int, most: int) -> float | None:
    return None if code in _UNDONE else round(100 * number / most, 2)


def meaning(code: str) -> str:
    """What a code of a failed request means; nothing for one that we don't know."""
    return _MEANINGS.get(code, "")


def any_live(views: Sequence[BatchView]) -> bool:
    """Whether one of them will change by itself."""
    return any(view.live for view in views)
