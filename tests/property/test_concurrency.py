"""Laws of the limit of requests in flight, whatever the server does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.worker.server.adaptive_limit import INITIAL_LIMIT, AdaptiveLimit
from batchwright.worker.server.concurrency import LatestAnswers, ServerLoad, Signal
from batchwright.worker.server.load import read_metrics

SECONDS = st.floats(0.0, 600.0)
COUNTS = st.integers(0, 5000)
PART = st.floats(0.0, 4.0)
LATEST = st.builds(LatestAnswers, COUNTS, st.floats(1.0, 10.0), PART, PART, PART, st.floats(0.0, 1e5))
USAGE = st.floats(0.0, 1.0)
LOADS = st.builds(ServerLoad, COUNTS, COUNTS, USAGE, USAGE, st.none() | LATEST)
MOST_AT_WORK = 20_000
"""In the mean, by the sums."""
FINISHED = st.tuples(SECONDS, st.floats(0.0, 2.0), st.sampled_from(Signal))
EVENTS = st.lists(
    st.tuples(
        st.floats(0.0, 5.0),
        st.one_of(FINISHED, LOADS, st.just("restart")),
        st.integers(1, 40),
    ),
    max_size=40,
)


def happens(limit: AdaptiveLimit, now: float, event: object) -> None:
    if isinstance(event, ServerLoad):
        limit.loaded(now, event, limit.limit if event.running % 3 else limit.limit // 2)
    elif isinstance(event, tuple):
        seconds, used, signal = event
        limit.finished(now, seconds, max(1, int(limit.limit * used)), signal)
    else:
        limit.restart(now)


@given(maximum=st.integers(1, 4096), events=EVENTS)
@settings(max_examples=200, deadline=None)
def test_it_stays_within_its_bounds_and_moves_the_right_way(
    maximum: int, events: list[tuple[float, object, int]]
) -> None:
    limit, now = AdaptiveLimit(maximum), 0.0
    for wait, event, times in events:
        now += wait
        for _ in range(times):
            before = limit.limit
            happens(limit, now, event)
            assert 1 <= limit.limit <= maximum
            if isinstance(event, tuple):
                check_step(before, limit.limit, event)
            elif event == "restart":
                assert limit.limit == min(INITIAL_LIMIT, maximum)
            else:
                # The limit is rounded down, and doubles as it is.
                assert limit.limit <= before + 1 + max(before, MOST_AT_WORK / 200), (
                    "it at most doubles, or takes its share"
                )


def check_step(before: int, after: int, event: tuple[float, float, Signal]) -> None:
    _, used, signal = event
    if signal is Signal.OTHER:
        assert after == before
    elif signal is Signal.OVERLOAD:
        assert after <= before
    else:
        assert after <= before + 1
        if used < 0.5 and before > 2:
            assert after <= before, "what is not used does not grow"


@given(events=EVENTS)
@settings(max_examples=50, deadline=None)
def test_the_same_events_give_the_same_limits(events: list[tuple[float, object, int]]) -> None:
    def played() -> list[int]:
        limit, now, seen = AdaptiveLimit(64), 0.0, []
        for wait, event, times in events:
            now += wait
            for _ in range(times):
                happens(limit, now, event)
                seen.append(limit.limit)
        return seen

    assert played() == played()


@given(st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
@settings(deadline=None)
def test_reading_the_load_never_fails(garbage: bytes) -> None:
    head = b"vllm:num_requests_running 1\nvllm:num_requests_waiting "
    for text in (garbage, head + garbage):
        metrics = read_metrics(text)
        load = None if metrics is None else metrics.load
        assert load is None or (load.waiting >= 0 and load.running >= 0 and 0 <= load.kv_cache_usage <= 1)
