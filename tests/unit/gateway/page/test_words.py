"""Numbers and times as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from batchwright.gateway.page import words

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (12_345, "12 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (200_000_000, "200 MB"),
        (5 * 10**12, "5.0 TB"),
        (2 * 10**18, "2,000 PB"),
    ],
)
def test_a_size_has_the_unit_that_fits(number: int, shown: str) -> None:
    assert words.size(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (-3, "0 s"),
        (0.25, "0.2 s"),
        (7, "7 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (3601, "1 h"),
        (3660, "1 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert words.duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "just now"), (9, "just now"), (10, "10 s ago"), (119, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")],
)
def test_an_age_has_its_largest_unit(seconds: float, shown: str) -> None:
    assert words.ago(NOON, NOON + timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"), [(0, "0"), (0.254, "0.25"), (1, "1.0"), (8.34, "8.3"), (412.4, "412"), (12_345, "12,345")]
)
def test_a_rate_has_the_digits_that_it_is_worth(per_second: float, shown: str) -> None:
    assert words.rate(per_second) == shown


def test_a_moment_is_in_utc_for_people_and_for_programs() -> None:
    moment = datetime.fromisoformat("2026-03-01T14:00:03+02:00")
    assert words.instant(moment) == "2026-03-01 12:00:03 UTC"
    assert words.machine(moment) == "2026-03-01T12:00:03Z"
