"""Rate and time left, as people read them.

The rate is that of the last minute: a mean since the start hides a server that has become slow. Both follow from the
samples alone and not from the clock, so that a look in between changes nothing.
"""

from datetime import datetime, timedelta
from typing import Any

from batchwright.api.status import BatchJobStatus
from batchwright.controller.core import counts
from batchwright.controller.core.observed import Sample

WINDOW = timedelta(minutes=1)
_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=999)
_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def extend(samples: tuple[Sample, ...], now: datetime, done: int) -> tuple[Sample, ...]:
    """The samples of the window with one more."""
    kept = tuple(sample for sample in samples if sample.at >= now - WINDOW and sample.at < now)
    return (*kept, Sample(now, done))


def facts(status: BatchJobStatus, samples: tuple[Sample, ...]) -> dict[str, Any]:
    """The fields of the status about progress, for counts that are in it already."""
    request_counts = status.request_counts
    if request_counts is None:
        return {}
    done = counts.done(status)
    text = f"{done}/{request_counts.total}"
    rate = _rate(samples)
    if rate is None:
        return {"progress": text}
    left = _time_left(request_counts.total - done, rate)
    return {
        "progress": text,
        "rate": format_rate(rate),
        "eta": format_time_left(left) if left is not None else None,
        "estimated_completion_time": samples[-1].at + left if left is not None else None,
    }


def format_rate(rate: float) -> str:
    """Requests a second, such as 412/s and 0.3/s."""
    return f"{rate:.0f}/s" if rate >= 10 or rate == 0 else f"{rate:.1f}/s"  # noqa: PLR2004


def format_bytes(done: int, total: int) -> str:
    """A part of all bytes in the unit that suits all of them, such as 1.2 of 4.0 GB."""
    unit = max((name for name in _UNITS if total >= _UNITS[name]), key=_UNITS.__getitem__, default="B")
    if unit == "B":
        return f"{done} of {total} B"
    return f"{done / _UNITS[unit]:.1f} of {total / _UNITS[unit]:.1f} {unit}"


def format_time_left(left: timedelta) -> str:
    """A duration as kubectl writes an age: 45s, 3m, 2h5m, 4d."""
    seconds = round(left.total_seconds())
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds}s"
    minutes = round(seconds / 60)
    if minutes < 120:  # noqa: PLR2004
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004
        return f"{hours}h{minutes}m" if minutes and hours < 8 else f"{hours}h"  # noqa: PLR2004
    return f"{hours // 24}d"


def _rate(samples: tuple[Sample, ...]) -> float | None:
    if len(samples) < 2 or samples[-1].at - samples[0].at < _SHORTEST:  # noqa: PLR2004
        return None
    seconds = (samples[-1].at - samples[0].at).total_seconds()
    return max(0, samples[-1].done - samples[0].done) / seconds


def _time_left(left: int, rate: float) -> timedelta | None:
    if rate <= 0:
        return None
    seconds = left / rate
    return timedelta(seconds=seconds) if seconds < _LONGEST.total_seconds() else None
