"""Laws of durations: what is written is read back, and models and CRD take the same texts."""

import re
from datetime import timedelta
from fractions import Fraction

from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from batchwright.api.duration import (
    DURATION_MAX_LENGTH,
    MAX_DURATION,
    Duration,
    format_duration,
    parse_duration,
)

DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
SCHEMA = DURATION.json_schema()
NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def refused_by_the_model(text: str) -> str | None:
    try:
        DURATION.validate_python(text)
    except ValidationError as error:
        return str(error)
    return None


durations = st.timedeltas(min_value=timedelta(0), max_value=MAX_DURATION)
number = st.from_regex(r"[0-9]{1,4}(\.[0-9]{0,3})?|\.[0-9]{1,3}", fullmatch=True).filter(str.isascii)
terms = st.lists(st.tuples(number, st.sampled_from(sorted(NANOSECONDS))), min_size=1, max_size=3)
nearly = st.text("0123456789.nuµμmsh -+e\n", max_size=DURATION_MAX_LENGTH + 2)


def taken_by_the_schema(text: str) -> bool:
    """As the API server takes it: patterns are unanchored searches, and `$` is the end of the text alone."""
    pattern = re.sub(r"\$$", r"\\Z", SCHEMA["pattern"])
    return len(text) <= SCHEMA["maxLength"] and re.search(pattern, text, re.ASCII) is not None


@given(durations)
def test_what_is_written_is_read_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(durations)
def test_what_is_written_passes_the_schema(duration: timedelta) -> None:
    assert taken_by_the_schema(format_duration(duration))


@given(terms)
def test_terms_add_up(terms: list[tuple[str, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in terms)
    assume(len(text) <= DURATION_MAX_LENGTH)
    nanoseconds = sum(Fraction(number.removesuffix(".")) * NANOSECONDS[unit] for number, unit in terms)
    assert parse_duration(text) == timedelta(microseconds=round(nanoseconds / 1000))


@given(nearly | st.from_regex(SCHEMA["pattern"], fullmatch=True))
@example("1h\n")
@example("0" * DURATION_MAX_LENGTH + "s")
def test_models_take_what_the_schema_takes_up_to_the_longest(text: str) -> None:
    refusal = refused_by_the_model(text)
    assert taken_by_the_schema(text) == (refusal is None or "longest duration" in refusal)
