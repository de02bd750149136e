"""Durations as Go writes them."""

from datetime import timedelta

import pytest
from pydantic import TypeAdapter, ValidationError

from batchwright.api.duration import (
    DURATION_MAX_LENGTH,
    MAX_DURATION,
    Duration,
    format_duration,
    parse_duration,
)

DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)

GOOD = {
    "90s": timedelta(seconds=90),
    "3m": timedelta(minutes=3),
    "1h30m": timedelta(hours=1, minutes=30),
    "1.5h": timedelta(hours=1, minutes=30),
    "500ms": timedelta(milliseconds=500),
    ".5s": timedelta(milliseconds=500),
    "1.s": timedelta(seconds=1),
    "0s": timedelta(0),
    "24h": timedelta(days=1),
    "10us": timedelta(microseconds=10),
    "10µs": timedelta(microseconds=10),  # U+00B5, micro sign
    "10μs": timedelta(microseconds=10),  # U+03BC, Greek mu
    "2500ns": timedelta(microseconds=2),  # half a microsecond rounds to even
    "1h1h": timedelta(hours=2),  # Go adds up a unit that stands twice
    "30m1h": timedelta(hours=1, minutes=30),
    "0.1s": timedelta(milliseconds=100),  # exact, unlike a sum of binary fractions
    "1.001s": timedelta(seconds=1, milliseconds=1),
    "2562047h47m16.854775s": MAX_DURATION,
}

BAD = {
    "nothing": "",
    "no unit": "5",
    "bare zero": "0",
    "negative": "-1s",
    "signed": "+1s",
    "space inside": "1 h",
    "space around": " 1h ",
    "line break at the end": "1h\n",
    "days": "1d",
    "exponent": "1e3s",
    "no digits": ".s",
    "only a unit": "s",
    "two points": "1.2.3s",
    "comma": "1,5h",
    "upper case": "1H",
    "ISO 8601": "PT1H",
    "half a unit": "1h30",
    "digits that are not ASCII": "١h",
    "word": "forever",
    "too long for its length": "0" * DURATION_MAX_LENGTH + "s",
    "longer than Go's": "2562047h47m16.854776s",
    "longer than a calendar": "99999999h",
    "longer than a timedelta": "9" * 30 + "h",
}


@pytest.mark.parametrize(("text", "duration"), GOOD.items(), ids=list(GOOD))
def test_go_durations_are_read(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration
    assert DURATION.validate_python(text) == duration


@pytest.mark.parametrize("text", BAD.values(), ids=list(BAD))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)
    with pytest.raises(ValidationError, match="duration"):
        DURATION.validate_python(text)


@pytest.mark.parametrize("value", [5, 5.0, True, None, ["1h"]])
def test_a_duration_is_a_string(value: object) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(value)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=1, minutes=30), "1h30m"),
        (timedelta(hours=24), "24h"),
        (timedelta(milliseconds=500), "0.5s"),
        (timedelta(microseconds=1), "0.000001s"),
        (timedelta(hours=1, seconds=1), "1h1s"),
    ],
)
def test_durations_are_written_as_short_as_they_are_read(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text
    assert DURATION.dump_python(duration) == text


def test_a_negative_duration_can_not_be_written() -> None:
    with pytest.raises(ValueError, match="never negative"):
        format_duration(timedelta(seconds=-1))
