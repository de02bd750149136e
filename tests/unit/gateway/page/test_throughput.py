"""Requests a second over a run, and the geometry of their plot."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway.page.throughput import HEIGHT, MOST_BINS, WIDTH, Span, nice_above, plot, throughput

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def span(start: float, end: float, lines: float = 100) -> Span:
    return Span(BEGAN + timedelta(seconds=start), BEGAN + timedelta(seconds=end), lines)


def test_nothing_is_nothing() -> None:
    assert throughput([], live=False) is None
    assert throughput([span(5, 3), span(0, 1, 0)], live=False) is None


def test_a_shards_requests_are_spread_over_its_time() -> None:
    rates = throughput([span(0, 10, 100), span(5, 10, 50)], live=False)
    assert rates is not None
    assert [one.rate for one in rates.bins] == pytest.approx([10.0] * 5 + [20.0] * 5)
    assert (rates.mean, rates.peak, rates.seconds) == pytest.approx((15.0, 20.0, 10.0))


@pytest.mark.parametrize(("seconds", "step"), [(45, 1), (61, 2), (3600, 60), (86_400, 1800), (90 * 86_400, 2 * 86_400)])
def test_bins_begin_at_round_times(seconds: float, step: float) -> None:
    rates = throughput([span(0, seconds)], live=False)
    assert rates is not None
    assert len(rates.bins) <= MOST_BINS
    assert [one.start % step for one in rates.bins] == [0] * len(rates.bins)
    assert rates.bins[-1].end == seconds


def test_a_sliver_at_the_end_is_no_bin_of_its_own() -> None:
    rates = throughput([span(0, 10), span(10, 10.1, 500)], live=False)
    assert rates is not None
    assert [(one.start, one.end) for one in rates.bins][-1] == (9.0, 10.1)


def test_a_run_of_no_time_has_one_bin_of_a_second() -> None:
    rates = throughput([span(0, 0, 7)], live=False)
    assert rates is not None
    assert [(one.start, one.end, one.rate) for one in rates.bins] == [(0.0, 1.0, 7.0)]


def test_the_end_of_a_live_run_is_unsettled_for_as_long_as_a_shard_takes() -> None:
    spans = [span(0, 10), span(5, 15), span(10, 20)]
    live, over = throughput(spans, live=True), throughput(spans, live=False)
    assert live is not None
    assert over is not None
    assert [one.end for one in live.bins if one.settled] == list(range(1, 11))
    assert all(one.settled for one in over.bins)
    assert live.mean == pytest.approx(sum(one.rate for one in live.bins[:10]) / 10)


spans = st.lists(
    st.builds(
        lambda start, length, lines: span(start, start + length, lines),
        st.floats(0, 1e6),
        st.floats(0, 1e5),
        st.integers(1, 10_000),
    ),
    min_size=1,
    max_size=30,
)


@given(spans, st.booleans())
def test_every_request_is_in_exactly_one_bin(some: list[Span], live: bool) -> None:
    rates = throughput(some, live=live)
    assert rates is not None
    assert len(rates.bins) <= MOST_BINS + 1
    assert sum(one.rate * (one.end - one.start) for one in rates.bins) == pytest.approx(sum(one.lines for one in some))
    assert all(before.end == after.start for before, after in zip(rates.bins, rates.bins[1:], strict=False))


@given(spans, st.booleans())
def test_a_plot_stays_in_its_box(some: list[Span], live: bool) -> None:
    rates = throughput(some, live=live)
    assert rates is not None
    drawn = plot(rates)
    for path in (drawn.line, drawn.area, drawn.unsettled):
        points = re.findall(r"[ML](-?[\d.e+-]+) (-?[\d.e+-]+)", path)
        assert path == "" or points
        assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)
    assert drawn.top >= rates.peak * (1 - 1e-9)
    assert sum(wide for _, wide, _ in drawn.bars) == pytest.approx(WIDTH, abs=1)


def test_a_plot_is_made_of_steps() -> None:
    rates = throughput([span(0, 1, 5), span(1, 2, 10)], live=False)
    assert rates is not None
    assert plot(rates).line == "M0 90 L360 90 L360 0 L720 0"
    assert plot(rates).area == "M0 180 L0 90 L360 90 L360 0 L720 0 L720 180 Z"


@pytest.mark.parametrize(
    ("value", "above"), [(0, 1), (1, 1), (1.01, 1.5), (412, 500), (432, 500), (999, 1000), (0.034, 0.04), (7e6, 8e6)]
)
def test_the_scale_ends_at_a_round_number(value: float, above: float) -> None:
    assert nice_above(value) == pytest.approx(above)
