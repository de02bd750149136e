"""Durations as Go writes them: `90s`, `3m`, `1h30m`, `1.5h`, `500ms`.

The grammar is that of Go's time.ParseDuration without a sign and without the bare `0`: every number has a unit.
"""

import re
from datetime import timedelta
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

NUMBER_WITH_UNIT = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
DURATION_PATTERN = f"^({NUMBER_WITH_UNIT})+$"
DURATION_MAX_LENGTH = 32

MAX_DURATION = timedelta(microseconds=(2**63 - 1) // 1000)
"""Go's largest duration, about 292 years. The API server's rules can't read a longer one, and dates have an end."""

_MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),  # U+00B5, micro sign
    "μs": Fraction(1),  # U+03BC, Greek mu
    "ms": Fraction(1000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}


def parse_duration(text: str) -> timedelta:
    """Read a Go duration, rounded to whole microseconds.

    Raises:
        ValueError: the text is no Go duration, or too long for one.
    """
    if len(text) > DURATION_MAX_LENGTH or not re.fullmatch(DURATION_PATTERN, text, re.ASCII):
        raise ValueError(
            f"{text[:DURATION_MAX_LENGTH]!r} is not a duration: write numbers with units,"
            " such as 90s, 3m, 1h30m, 1.5h or 500ms"
        )
    total = sum(
        (
            Fraction(number.removesuffix(".")) * _MICROSECONDS[unit]
            for number, _, unit in re.findall(NUMBER_WITH_UNIT, text, re.ASCII)
        ),
        start=Fraction(0),
    )
    if total > MAX_DURATION // timedelta(microseconds=1):
        raise ValueError(f"{text!r} is longer than {format_duration(MAX_DURATION)}, the longest duration")
    return timedelta(microseconds=round(total))


def format_duration(duration: timedelta) -> str:
    """Write a duration as Go does, to the microsecond: `1h30m0s` becomes `1h30m`; zero is `0s`."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds < 0:
        raise ValueError("a duration is never negative")
    hours, rest = divmod(microseconds, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    parts = [f"{hours}h"] * (hours > 0) + [f"{minutes}m"] * (minutes > 0)
    if rest or not parts:
        seconds = f"{rest // 1_000_000}.{rest % 1_000_000:06d}".rstrip("0").rstrip(".")
        parts.append(f"{seconds}s")
    return "".join(parts)


def _validate(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("a duration is a string such as 90s, 3m or 1h30m")


Duration = Annotated[
    timedelta,
    BeforeValidator(_validate),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": DURATION_MAX_LENGTH, "pattern": DURATION_PATTERN}),
]
