"""Numbers and times as people read them."""

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")
_THOUSAND: Final = 1000
_TEN: Final = 10
_SECONDS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_NOW_SECONDS: Final = 10


def count(number: int) -> str:
    """A number with its thousands apart: 12,345."""
    return f"{number:,}"


def size(number: int) -> str:
    """Bytes in decimal units: 1.2 MB."""
    if number < _THOUSAND:
        return f"{number} B"
    value = float(number)
    for unit in _UNITS:
        value /= _THOUSAND
        if round(value) < _THOUSAND or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}" if value < _TEN else f"{value:,.0f} {unit}"


def duration(seconds: float) -> str:
    """A time span in its two largest units: 3 min 20 s. Under ten seconds with a tenth."""
    if 0 < seconds < _TEN and seconds != int(seconds):
        return f"{seconds:.1f} s"
    rest = max(0, round(seconds))
    parts: list[str] = []
    for unit, length in _SECONDS:
        amount, rest = divmod(rest, length)
        if amount or parts:
            parts.append(f"{amount} {unit}" if amount else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago, in the largest unit alone: 3 min ago."""
    seconds = (now - moment).total_seconds()
    if seconds < _NOW_SECONDS:
        return "just now"
    for unit, length in _SECONDS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    raise AssertionError(seconds)


def instant(moment: datetime) -> str:
    """A moment in UTC: 2026-03-01 12:00:03 UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def machine(moment: datetime) -> str:
    """A moment for programs, as `<time datetime>` wants it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rate(per_second: float) -> str:
    """Requests a second with as many digits as they are worth: 412, 8.3, 0.25."""
    if per_second >= _TEN or per_second == 0:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second >= 1 else f"{per_second:.2g}"
